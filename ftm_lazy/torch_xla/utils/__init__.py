"""torch_xla.utils: helpers that programs import."""
