"""torch_xla.distributed: several processes, device loaders, sharded parameters."""
