"""torch_xla._internal: what other libraries look up there."""
