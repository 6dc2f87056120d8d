"""torch_xla.test: what torch_xla's examples take from its tests."""
