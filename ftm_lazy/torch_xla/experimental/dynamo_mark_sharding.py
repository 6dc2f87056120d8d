"""torch_xla.experimental.dynamo_mark_sharding: importing it made operations known to dynamo; there
is nothing to make known."""
