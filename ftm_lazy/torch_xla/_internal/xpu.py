"""torch_xla._internal.xpu: importable, and empty; there is no such machine here."""
