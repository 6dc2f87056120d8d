"""torch_xla._internal.xpu: empty, but importable."""
