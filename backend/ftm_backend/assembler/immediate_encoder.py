"""Converts immediates to bits of an element type, rounding to nearest, ties to even."""

from __future__ import annotations

import math
import struct

from ftm_backend.symbolic import (
    FloatBits,
    SymFloat,
    SymInt,
    as_symfloat,
    is_integer,
    round_to_dtype,
)
from ftm_backend.target.element_types import ElementType

_FLOAT_LIMIT = {"f32": 3.4028235677973366e38, "f16": 65520.0}
"""Numbers of at least this magnitude round to infinity."""


def to_bits(value: int | float, element: ElementType) -> int | FloatBits:
    """Return the bits of ``value`` in ``element`` as an unsigned integer, or symbolic.

    Raises:
        ValueError: A float where an integer is needed, or an integer out of range.
    """
    if element.kind == "float" and isinstance(value, (SymInt, SymFloat)):
        number = as_symfloat(value)
        hint = _float_bits(round_to_dtype(number.value, element.token), element)
        return FloatBits(f"{element.token}:{number.text}", hint)
    if element.kind == "float":
        return _float_bits(float(value), element)
    if not is_integer(value):
        raise ValueError(f"{value!r} is no integer, but the operand is {element.suffix}")
    if element.kind == "bool":
        if value not in (0, 1):
            raise ValueError(f"{value} is no boolean: use 0 or 1")
        return value
    if not -(1 << (element.bits - 1)) <= value < 1 << element.bits:
        raise ValueError(f"{value} does not fit in {element.suffix}")
    if isinstance(value, SymInt) and element.bits == 64:
        return value
    return value & ((1 << element.bits) - 1)


def _float_bits(value: float, element: ElementType) -> int:
    if element.token == "f64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if element.token == "bf16":
        return _bf16_bits(value)
    limit = _FLOAT_LIMIT[element.token]
    if math.isfinite(value) and abs(value) >= limit:
        value = math.copysign(math.inf, value)
    code, unsigned = ("<f", "<I") if element.token == "f32" else ("<e", "<H")
    return struct.unpack(unsigned, struct.pack(code, value))[0]


def _bf16_bits(value: float) -> int:
    if math.isnan(value):
        return 0x7FC0
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    sign, magnitude = bits >> 63, bits & ((1 << 63) - 1)
    # Directly from f64, to round only once: scale to the spacing of bf16 and round there.
    number = struct.unpack("<d", struct.pack("<Q", magnitude))[0]
    if math.isinf(number):
        return sign << 15 | 0x7F80
    _, exponent = math.frexp(number)
    step = max(exponent - 8, -133)
    rounded = round(math.ldexp(number, -step))
    number = math.ldexp(rounded, step)
    if number >= 2.0**128:
        return sign << 15 | 0x7F80
    return sign << 15 | struct.unpack("<I", struct.pack("<f", number))[0] >> 16
