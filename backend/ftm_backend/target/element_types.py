"""Element types and address spaces of the assembly, with their numbers in an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np

from ftm_backend.dtypes import DTYPES, MACHINE, DTypeInfo


@dataclass(frozen=True)
class ElementType:
    """One element type: ``token`` in headers (``f32``), ``suffix`` in map operations (``F32``)."""

    token: str
    suffix: str
    number: int
    bytes: int
    kind: str
    """``float``, ``int`` (two's complement), ``uint`` or ``bool`` (one byte, 0 or 1)."""

    @property
    def bits(self) -> int:
        """Width in bits of the value: 1 for booleans."""
        return 1 if self.kind == "bool" else 8 * self.bytes

    @property
    def array(self) -> np.dtype[np.generic]:
        """The numpy type of the same bytes; bf16 is held as its bits in uint16."""
        return np.dtype(DTYPES[self.token].numpy)


def _element(facts: DTypeInfo) -> ElementType:
    kind = "uint" if facts.kind == "int" and not facts.signed else facts.kind
    return ElementType(facts.token, facts.suffix, facts.code or 0, facts.bytes, kind)


TYPES = tuple(_element(facts) for facts in MACHINE)

BY_TOKEN = {t.token: t for t in TYPES}
BY_SUFFIX = {t.suffix: t for t in TYPES}
BY_NUMBER = {t.number: t for t in TYPES}

FLOATS = tuple(t.suffix for t in TYPES if t.kind == "float")
INTEGERS = tuple(t.suffix for t in TYPES if t.kind in ("int", "uint"))
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + ("B1",)

ACCUMULATORS = {
    "f32": "f32",
    "f64": "f64",
    "bf16": "f32",
    "f16": "f32",
    "i8": "i32",
    "i32": "i32",
    "i64": "i64",
}
"""The matrix unit: operand type -> type of the product and of the sums."""


def same_elements(a: ElementType, b: ElementType) -> bool:
    """Whether a transfer may move one type as the other: equal types, or i8 and u8."""
    return a is b or {a.token, b.token} == {"i8", "u8"}


SPACES = {"ddr": 0, "am": 1, "sm": 2, "gsm": 3}
"""Address spaces by name. Tiles live in all but ``ddr``; buffers live in ``ddr`` or ``gsm``."""

SCALAR_REGISTERS = 64
"""r0 to r63: 64-bit two's complement integers, zero when a program starts, one set per core."""

VECTOR_REGISTERS = 1 << 16
"""v0 to v65535: names of values in a map body, which bounds the operations of a body.

A machine has fewer registers; the rest is spilled (``perf_model.modulo_scheduler``). Fusion keeps
bodies far below the limit (``midend.analysis.body_cost``).
"""

SLOT_ALIGNMENT = 64
"""Tiles, and the slots of a ring, start at multiples of this many bytes."""


Numbers = float | np.ndarray
"""A number, or an array of numbers: one for each schedule that is compared."""


@overload
def slot_bytes(rows: int, columns: int, item: int) -> int: ...
@overload
def slot_bytes(rows: Numbers, columns: Numbers, item: int) -> np.ndarray: ...
def slot_bytes(rows: Numbers, columns: Numbers, item: int) -> Numbers:
    """Return the distance in bytes between slots of ``rows`` x ``columns`` elements.

    Args:
        rows: Number, symbolic size, or array of them.
        columns: Likewise.
        item: Bytes of an element.
    """
    return -(-rows * columns * item // SLOT_ALIGNMENT) * SLOT_ALIGNMENT


MEMORY_ALIGNMENT = 64
"""The arena, its regions and an image's constants start at multiples of this many bytes."""
