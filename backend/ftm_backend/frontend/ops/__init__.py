"""Op records, one file for each family; importing this registers them all, those of other packages too, and loads no MLIR."""

from __future__ import annotations

import importlib

from ftm_backend import plugins
from ftm_backend.dtypes import COMPLEX, FLOATS
from ftm_backend.frontend import complex_fft, complex_index, complex_ops, complex_pairs  # noqa: F401  (registers the rewrites)
from ftm_backend.frontend.ops.record import RECORDS, OpRecord
from ftm_backend.frontend.ops.recording import FACTS, recording_table

__all__ = ["RECORDS", "OpRecord", "native_ops", "recording_table"]

FAMILIES = (
    "views",
    "elementwise",
    "activation",
    "arithmetic",
    "integers",
    "gamma",
    "probability",
    "bessel",
    "polynomials",
    "creation",
    "reduction",
    "scan",
    "sort",
    "normalize",
    "contract",
    "convolution",
    "pooling",
    "adaptive_pooling",
    "interpolate",
    "padding",
    "fold",
    "grid_sample",
    "distance",
    "indexing",
    "index_put",
    "scatter",
    "histogram",
    "segments",
    "embedding_bag",
    "search",
    "masks",
    "loss",
    "margin_loss",
    "layout",
    "random",
    "sampling",
    "quantization",
    "recurrent",
)
"""Modules with records, each ``ops/<name>.py``."""

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")
plugins.load(RECORDS, FACTS)


def native_ops() -> dict[str, tuple[str, ...]]:
    """Op name -> dtype tokens that the compiler takes; every tensor argument's dtype must be among them, and so must
    a result's that is complex."""
    table = {name: record.dtypes for name, record in RECORDS.items() if not name.startswith("ftm.")}
    for name in complex_pairs.OPS:
        if name.startswith("aten::"):
            table[name] = (*table.get(name, FLOATS), *COMPLEX)
    return table
