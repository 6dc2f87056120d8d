"""Conversions between float8 formats and f32, rounding to nearest with ties to even.

Elsewhere a float8 is an opaque byte. The conversions use f32 and i32 arithmetic: shifted into
place, exponent and mantissa of a float8 form an f32 whose exponent is off by the difference of the
biases, subnormal numbers included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ftm_backend.frontend.scalar_expr import ScalarExpr


_SIGN = 1 << 31  # of an f32
_INFINITY = 0xFF << 23
_POWERS = "f8e8m0fnu"  # only an exponent of eight bits: a power of two


@dataclass(frozen=True, slots=True)
class Float8Format:
    """A signed float8 format. Codes are given without the sign.

    Attributes:
        mantissa: Bits of the mantissa.
        bias: Bias of the exponent.
        largest: Code of the largest finite number.
        beyond: Code of values that round to more than the largest number.
        nan: Code of NaN.
        one_zero: There is no -0; its code is the only NaN.
    """

    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int
    one_zero: bool = False


FORMATS = {
    "f8e4m3fn": Float8Format(3, 7, largest=0x7E, beyond=0x7E, nan=0x7F),
    "f8e5m2": Float8Format(2, 15, largest=0x7B, beyond=0x7C, nan=0x7F),
    "f8e4m3fnuz": Float8Format(3, 8, largest=0x7F, beyond=0x80, nan=0x80, one_zero=True),
    "f8e5m2fnuz": Float8Format(2, 16, largest=0x7F, beyond=0x80, nan=0x80, one_zero=True),
}
"""Formats by dtype token."""


def decode(x: ScalarExpr) -> ScalarExpr:
    """Convert a float8 to f32, exactly."""
    from ftm_backend.frontend.scalar_expr import where

    code = x.emitter.emit("arith.extui", "i32", x)
    if x.dtype == _POWERS:
        least = code.const(1 << 22)  # 2**-127, subnormal
        return where(code.eq(0xFF), math.nan, where(code.eq(0), least, code << 23).bitcast("f32"))
    format_ = FORMATS[x.dtype]
    magnitude = code & 0x7F
    number = (magnitude << (23 - format_.mantissa)).bitcast("f32") * 2.0 ** (127 - format_.bias)
    if not format_.one_zero:
        number = where(magnitude > format_.largest, math.nan, number)
        if format_.beyond > format_.largest:
            number = where(magnitude.eq(format_.beyond), math.inf, number)
    signed = (number.bitcast("i32") | ((code & 0x80) << 24)).bitcast("f32")
    return where(code.eq(format_.nan), math.nan, signed) if format_.one_zero else signed


def encode(x: ScalarExpr, token: str) -> ScalarExpr:
    """Convert an f32 to the float8 dtype `token`."""
    from ftm_backend.frontend.scalar_expr import where

    bits = x.bitcast("i32")
    if token == _POWERS:
        return _byte(_power(bits), token)
    format_ = FORMATS[token]
    magnitude = bits & (_SIGN - 1)
    negative = (bits >> 24) & 0x80
    # Round subnormal results by adding a number whose last bit has the value of the format's
    # smallest subnormal.
    rounder = (1 - format_.bias - format_.mantissa + 23 + 127) << 23
    small = (magnitude.bitcast("f32") + magnitude.const(rounder).bitcast("f32")).bitcast(
        "i32"
    ) - rounder
    shift = 23 - format_.mantissa
    odd = (magnitude >> shift) & 1
    normal = (
        magnitude + odd + ((format_.bias - 127) * (1 << 23) + (1 << (shift - 1)) - 1)
    ) >> shift
    code = where(magnitude < (128 - format_.bias) << 23, small, normal)
    code = where(code > format_.largest, format_.beyond, code)
    if format_.one_zero:
        signed = where(code.eq(0), code, code | negative)
        return _byte(where(magnitude > _INFINITY, format_.nan, signed), token)
    return _byte(where(magnitude > _INFINITY, format_.nan, code) | negative, token)


def _power(bits: ScalarExpr) -> ScalarExpr:
    """Round to a power of two: the exponent, plus one from the midpoint on.

    A subnormal number rounds up only above the midpoint.
    """
    from ftm_backend.frontend.scalar_expr import where

    exponent = (bits >> 23) & 0xFF
    mantissa = bits & ((1 << 23) - 1)
    rounds_up = where(exponent > 0, mantissa >= 1 << 22, mantissa > 1 << 22)
    return where(exponent.eq(0xFF), exponent, exponent + rounds_up.to("i32"))


def _byte(code: ScalarExpr, token: str) -> ScalarExpr:
    return code.emitter.emit("arith.trunci", token, code)
