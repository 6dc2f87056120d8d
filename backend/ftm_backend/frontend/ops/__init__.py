"""All op records, one package per family; importing this registers them, including plugins'.

Loads no MLIR.
"""

from __future__ import annotations

import importlib

from ftm_backend import plugins
from ftm_backend.dtypes import COMPLEX, FLOATS
from ftm_backend.frontend import complex
from ftm_backend.frontend.oplib.op_registry import RECORDS, OpRecord
from ftm_backend.frontend.oplib.op_traits import TRAITS, trait_table

__all__ = ["RECORDS", "OpRecord", "native_ops", "trait_table"]

FAMILIES = ("math", "shape", "index", "reduce", "matrix", "nn", "random", "collective")
"""Packages of records, by PyTorch's areas; they do not import each other."""

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")
plugins.load(RECORDS, TRAITS)


def native_ops() -> dict[str, tuple[str, ...]]:
    """Return the dtypes that the compiler supports, by op name.

    All tensor arguments must have one of them, and so must a complex result.
    """
    table = {name: record.dtypes for name, record in RECORDS.items() if not name.startswith("ftm.")}
    for name in complex.OPS:
        if name.startswith("aten::"):
            table[name] = (*table.get(name, FLOATS), *COMPLEX)
    return table
