"""torch_xla.test: helpers that torch_xla's examples import from its tests."""
