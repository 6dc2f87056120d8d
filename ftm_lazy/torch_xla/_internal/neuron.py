"""torch_xla._internal.neuron: empty, but importable."""
