"""Element types and address spaces of the assembly, with the numbers that they carry in an
image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    def array(self) -> np.dtype[Any]:
        """The numpy type with the same bytes; bf16 travels as its bits in uint16."""
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
"""The matrix unit: type of both operands -> type of their product, in which it sums."""


def same_elements(a: ElementType, b: ElementType) -> bool:
    """Whether data of one type may be moved as the other: equal types, or i8 and u8."""
    return a is b or {a.token, b.token} == {"i8", "u8"}


SPACES = {"ddr": 0, "am": 1, "sm": 2, "gsm": 3}
"""Address spaces by name; tiles live in all but ``ddr``, buffers there and, if they are so
declared, in ``gsm``."""

SCALAR_REGISTERS = 64
"""r0 to r63: 64-bit two's complement integers, zero when a program starts, one set per core."""

VECTOR_REGISTERS = 1 << 16
"""v0 to v65535: names for values in a map body, as many as a body may have operations. A machine
has fewer registers, and what they do not hold costs loads and stores
(``perf_model.modulo_scheduler``). Fusion keeps bodies far below (``midend.analysis.body_cost``)."""

SLOT_ALIGNMENT = 64
"""Tiles start, and slots of a ring follow each other, at multiples of this many bytes."""


def slot_bytes(rows: Any, columns: Any, item: int) -> Any:
    """Distance of the slots of ``rows`` x ``columns`` elements of ``item`` bytes; of numbers, of
    sizes, or of arrays of them."""
    return -(-rows * columns * item // SLOT_ALIGNMENT) * SLOT_ALIGNMENT


MEMORY_ALIGNMENT = 64
"""The same of what lies in DDR: the arena and its regions, and an image's constants."""
