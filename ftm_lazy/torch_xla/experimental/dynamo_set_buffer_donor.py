"""torch_xla.experimental.dynamo_set_buffer_donor: importing it made operations known to dynamo;
there is nothing to make known."""
