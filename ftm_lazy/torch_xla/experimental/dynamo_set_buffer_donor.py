"""torch_xla.experimental.dynamo_set_buffer_donor: empty; torch_xla's registers operations."""
