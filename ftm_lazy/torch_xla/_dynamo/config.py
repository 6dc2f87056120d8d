"""torch_xla._dynamo.config: a setting that programs assign and that has no effect."""

skip_input_data_check = False
"""Accepted; inputs of a graph are never checked."""
