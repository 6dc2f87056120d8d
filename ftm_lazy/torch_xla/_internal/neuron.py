"""torch_xla._internal.neuron: importable, and empty; there is no such machine here."""
