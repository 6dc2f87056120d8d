"""The instruction table: the one list that assembler, emulator, cycle model and manual are made
from.

Opcodes are positions in this list. An image carries the table's fingerprint, so a machine that was
built from another table refuses it instead of misreading it.
"""

from __future__ import annotations

import hashlib

from ftm_backend.target import element_types
from ftm_backend.target.instruction import InstructionDef
from ftm_backend.target.instructions import (
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
"""Map operations that are a loop over a strip of elements each, of the machine's table of kernels.
What a body does besides (converting, counting, drawing, gathering) is code of its own."""

BY_NAME: dict[str, InstructionDef] = {row.name: row for row in INSTRUCTIONS}

OPCODES: dict[str, int] = {row.name: number for number, row in enumerate(INSTRUCTIONS)}

REDUCTIONS = ("sum", "prod", "min", "max", "and", "or")
"""Reductions of map outputs, in the order of their numbers from 1."""

SCOPES = ("full", "r", "c", "a")
"""What a map output holds: every element, or a reduction along each row, down each column, or of
all."""

ACCESSES = ("full", "row", "col", "one")
"""How a map input is read: every element, 1xC repeated, Rx1 repeated, 1x1 repeated."""


def fingerprint() -> int:
    """64 bits that change when an opcode, a type number or an operand list changes."""
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
