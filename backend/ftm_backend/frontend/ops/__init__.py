"""Op records, a package for each family; importing this registers them all, those of other packages
too, and loads no MLIR."""

from __future__ import annotations

import importlib

from ftm_backend import plugins
from ftm_backend.dtypes import COMPLEX, FLOATS
from ftm_backend.frontend import complex
from ftm_backend.frontend.oplib.op_record import RECORDS, OpRecord
from ftm_backend.frontend.oplib.schema_annotations import FACTS, recording_table

__all__ = ["RECORDS", "OpRecord", "native_ops", "recording_table"]

FAMILIES = ("math", "shape", "index", "reduce", "matrix", "nn", "random")
"""Packages with records, by what users call; none knows another."""

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")
plugins.load(RECORDS, FACTS)


def native_ops() -> dict[str, tuple[str, ...]]:
    """Op name -> dtype tokens that the compiler takes; every tensor argument's dtype must be among
    them, and so must a result's that is complex."""
    table = {name: record.dtypes for name, record in RECORDS.items() if not name.startswith("ftm.")}
    for name in complex.OPS:
        if name.startswith("aten::"):
            table[name] = (*table.get(name, FLOATS), *COMPLEX)
    return table
