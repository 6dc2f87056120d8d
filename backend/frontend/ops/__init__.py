"""Op records, one file for each family; importing this registers them all, and loads no MLIR."""

from __future__ import annotations

import importlib

from ftm_backend.frontend.ops.record import RECORDS, OpRecord

__all__ = ["RECORDS", "OpRecord", "native_ops"]

FAMILIES = ("views", "elementwise", "activation", "arithmetic", "integers", "gamma", "probability", "bessel", "creation",
            "reduction", "scan", "sort", "normalize", "contract", "convolution", "pooling", "adaptive_pooling", "interpolate", "padding", "indexing", "index_put", "scatter", "loss", "layout", "random")
"""Modules with records, each ``ops/<name>.py``."""

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")


def native_ops() -> dict[str, tuple[str, ...]]:
    """Op name -> dtype tokens that the compiler takes; every tensor argument's dtype must be among them."""
    return {name: record.dtypes for name, record in RECORDS.items() if name.startswith("aten::")}
