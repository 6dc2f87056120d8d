"""The instruction table: the single source of assembler, emulator, cycle model and manual.

Opcodes are positions in the table. An image carries the table's fingerprint, so an emulator built
from another table rejects it instead of misinterpreting it.
"""

from __future__ import annotations

import hashlib

from ftm_backend.target import element_types
from ftm_backend.target.instruction import InstructionDef
from ftm_backend.target.instructions import (
    collective,
    control,
    dma,
    map_arithmetic,
    map_conversion,
    map_logic,
    map_math,
    matrix,
    scalar,
    sort_scan,
)

FAMILIES = (
    scalar,
    control,
    dma,
    matrix,
    sort_scan,
    collective,
    map_arithmetic,
    map_logic,
    map_math,
    map_conversion,
)

INSTRUCTIONS: tuple[InstructionDef, ...] = tuple(
    row for family in FAMILIES for row in family.INSTRUCTIONS
)

STRIPS: tuple[InstructionDef, ...] = tuple(
    row for family in (map_arithmetic, map_logic, map_math) for row in family.INSTRUCTIONS
)
"""Map operations whose kernels (machine/src/kernels) are loops over a strip of elements.

The other map operations (conversion, position, random bits, gather) have code of their own.
"""

BY_NAME: dict[str, InstructionDef] = {row.name: row for row in INSTRUCTIONS}

OPCODES: dict[str, int] = {row.name: number for number, row in enumerate(INSTRUCTIONS)}

REDUCTIONS = ("sum", "prod", "min", "max", "and", "or")
"""Reductions of map outputs, in the order of their numbers from 1."""

SCOPES = ("full", "r", "c", "a")
"""Scope of a map output: every element, or a reduction of each row, each column or all elements."""

ACCESSES = ("full", "row", "col", "one")
"""Access of a map input: every element, or a 1xC row, an Rx1 column or one element repeated."""


def fingerprint() -> int:
    """Return 64 bits that change with every opcode, type number and operand list."""
    rows = [
        (
            row.name,
            OPCODES[row.name],
            [(o.name, o.kind) for o in row.operands],
            row.suffixes,
            row.types,
            row.from_types,
        )
        for row in INSTRUCTIONS
    ]
    facts = repr((rows, element_types.TYPES, element_types.SPACES, REDUCTIONS, SCOPES, ACCESSES))
    return int.from_bytes(hashlib.blake2b(facts.encode(), digest_size=8).digest(), "little")


if len(BY_NAME) != len(INSTRUCTIONS):
    raise AssertionError("two instructions share a name")
