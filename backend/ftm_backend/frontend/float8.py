"""Numbers of eight bits: what their bits mean as f32, and the bits of an f32 rounded to nearest,
ties to even.

A float8 is a byte to everything but the conversions here, in the arithmetic of f32 and i32. Shifted
into place, its exponent and mantissa are an f32 whose exponent is off by the difference of the
biases, subnormal numbers included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ftm_backend.frontend.scalar_expr import ScalarExpr

__all__ = ["FORMATS", "Float8Format", "decode", "encode"]

_SIGN = 1 << 31  # of an f32
_INFINITY = 0xFF << 23
_POWERS = "f8e8m0fnu"  # a power of two and nothing else: eight bits of exponent


@dataclass(frozen=True, slots=True)
class Float8Format:
    """A format with a sign: bits of the mantissa, bias of the exponent, and codes (without the
    sign).

    largest: of the largest number. beyond: of what rounds to more. nan: of NaN. one_zero: -0 is no
    number, and its code the only NaN.
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
"""By dtype token."""


def decode(x: ScalarExpr) -> ScalarExpr:
    """The f32 that the float8 ``x`` is; exact."""
    from ftm_backend.frontend.scalar_expr import where

    code = x.emitter.emit("arith.extui", "i32", x)
    if x.dtype == _POWERS:
        least = code.const(1 << 22)  # 2**-127, subnormal
        return where(code.eq(0xFF), math.nan, where(code.eq(0), least, code << 23).bitcast("f32"))
    form = FORMATS[x.dtype]
    size = code & 0x7F
    number = (size << (23 - form.mantissa)).bitcast("f32") * 2.0 ** (127 - form.bias)
    if not form.one_zero:
        number = where(size > form.largest, math.nan, number)
        if form.beyond > form.largest:
            number = where(size.eq(form.beyond), math.inf, number)
    signed = (number.bitcast("i32") | ((code & 0x80) << 24)).bitcast("f32")
    return where(code.eq(form.nan), math.nan, signed) if form.one_zero else signed


def encode(x: ScalarExpr, token: str) -> ScalarExpr:
    """The f32 ``x`` as the float8 ``token``."""
    from ftm_backend.frontend.scalar_expr import where

    bits = x.bitcast("i32")
    if token == _POWERS:
        return _byte(_power(bits), token)
    form = FORMATS[token]
    size = bits & (_SIGN - 1)
    negative = (bits >> 24) & 0x80
    # Beside a number whose last bit is the format's least, what is less than its normal numbers
    # rounds itself.
    beside = (1 - form.bias - form.mantissa + 23 + 127) << 23
    small = (size.bitcast("f32") + size.const(beside).bitcast("f32")).bitcast("i32") - beside
    shift = 23 - form.mantissa
    odd = (size >> shift) & 1
    normal = (size + odd + ((form.bias - 127) * (1 << 23) + (1 << (shift - 1)) - 1)) >> shift
    code = where(size < (128 - form.bias) << 23, small, normal)
    code = where(code > form.largest, form.beyond, code)
    if form.one_zero:
        signed = where(code.eq(0), code, code | negative)
        return _byte(where(size > _INFINITY, form.nan, signed), token)
    return _byte(where(size > _INFINITY, form.nan, code) | negative, token)


def _power(bits: ScalarExpr) -> ScalarExpr:
    """The exponent, one more from the middle on; of a subnormal number from above the middle on."""
    from ftm_backend.frontend.scalar_expr import where

    exponent = (bits >> 23) & 0xFF
    rest = bits & ((1 << 23) - 1)
    up = where(exponent > 0, rest >= 1 << 22, rest > 1 << 22)
    return where(exponent.eq(0xFF), exponent, exponent + up.to("i32"))


def _byte(code: ScalarExpr, token: str) -> ScalarExpr:
    return code.emitter.emit("arith.trunci", token, code)
