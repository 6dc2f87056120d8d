"""An operation on strips is named in two places: its row in the instruction table, and its kernel.

docs/contributing/an-instruction.md adds one.
"""

from __future__ import annotations

import re
from pathlib import Path

import ftm_backend
from ftm_backend.assembler import isa_header
from ftm_backend.target import instruction_table

PACKAGE = Path(ftm_backend.__file__).parent


def test_only_kernels_name_operations_on_strips() -> None:
    """Except for those by which transfers and sums combine elements: copy, add, multiply, least,
    greatest."""
    names = {isa_header.strip_name(row) for row in instruction_table.STRIPS}
    source = PACKAGE / "machine" / "src"
    kernels = {path for path in source.rglob("*.*") if path.parent.name == "kernels"}
    assert {
        name for path in kernels for name in re.findall(r"\bOp::(\w+)", path.read_text())
    } <= names | {"Count", "Name"}
    elsewhere = {
        name
        for path in source.glob("*.*")
        for name in re.findall(r"\b(?:Op|Strip)::(\w+)", path.read_text())
    }
    assert elsewhere == {"Mov", "Add", "Mul", "Min", "Max", "Count"}
