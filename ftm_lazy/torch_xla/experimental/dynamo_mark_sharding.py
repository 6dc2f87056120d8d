"""torch_xla.experimental.dynamo_mark_sharding: empty; torch_xla's registers operations."""
