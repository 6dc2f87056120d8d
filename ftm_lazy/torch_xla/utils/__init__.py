"""torch_xla.utils: small helpers that programs import."""
