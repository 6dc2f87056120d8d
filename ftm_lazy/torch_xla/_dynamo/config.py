"""torch_xla._dynamo.config: a setting that programs assign."""

skip_input_data_check = False
"""Accepted: the inputs of a graph need no check here."""
