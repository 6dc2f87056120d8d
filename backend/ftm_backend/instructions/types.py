"""Element types and address spaces of the assembly, with the numbers that they carry in an image."""

from __future__ import annotations

from dataclasses import dataclass


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


TYPES = (
    ElementType("f64", "F64", 0, 8, "float"),
    ElementType("f32", "F32", 1, 4, "float"),
    ElementType("f16", "F16", 2, 2, "float"),
    ElementType("bf16", "BF16", 3, 2, "float"),
    ElementType("i64", "I64", 4, 8, "int"),
    ElementType("i32", "I32", 5, 4, "int"),
    ElementType("i16", "I16", 6, 2, "int"),
    ElementType("i8", "I8", 7, 1, "int"),
    ElementType("u8", "U8", 8, 1, "uint"),
    ElementType("i1", "B1", 9, 1, "bool"),
)

BY_TOKEN = {t.token: t for t in TYPES}
BY_SUFFIX = {t.suffix: t for t in TYPES}
BY_NUMBER = {t.number: t for t in TYPES}

FLOATS = ("F64", "F32", "F16", "BF16")
INTEGERS = ("I64", "I32", "I16", "I8", "U8")
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + ("B1",)

SPACES = {"ddr": 0, "am": 1, "sm": 2, "gsm": 3}
"""Address spaces by name; tiles live in all but ``ddr``, buffers only there."""

SCALAR_REGISTERS = 64
"""r0 to r63: 64-bit two's complement integers, zero when a program starts, one set per core."""

VECTOR_REGISTERS = 1024
"""v0 to v1023: names for values in a map body; the image renumbers them by liveness."""

SLOT_ALIGNMENT = 64
"""Tiles start, and slots of a ring follow each other, at multiples of this many bytes."""
