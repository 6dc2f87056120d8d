"""torch_xla.distributed: multiple processes, device loaders, sharded parameters."""
