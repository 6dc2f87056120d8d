"""torch_xla._internal: names that other libraries import from there."""
