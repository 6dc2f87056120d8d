"""Expansions of exponentials and hyperbolic functions.

e^x = 2^n e^r, where n is the integer nearest to x / ln 2. So |r| <= ln(2) / 2, and a polynomial
gives e^r.
"""

from __future__ import annotations

from math import log

from ftm_backend.target.macros import polynomial_coefficients
from ftm_backend.target.macros.division import quotient
from ftm_backend.target.macros.macro_builder import FORMATS, MacroBuilder, MacroValue, Source

LN2 = {
    "F32": (0.693145751953125, 1.42860682030941723e-06),
    "F64": (0.6931471803691238, 1.9082149292705877e-10),
}
"""ln 2 as a sum whose first term has so few digits that its products with exponents are exact."""

_LOG2_E = 1.4426950408889634
_TOP = {"F32": 89.0, "F64": 710.0}
"""e^x is infinite above this."""
_BOTTOM = {"F32": -104.0, "F64": -746.0}
"""e^x is 0 below this."""


def reduced(b: MacroBuilder, x: MacroValue) -> tuple[MacroValue, MacroValue]:
    """Return n, as an integer of x's size, and r."""
    form = FORMATS[x.type]
    shifted = b.fma(x, _LOG2_E, form.rounder)
    count = b.sub(b.bits(shifted, form.integer), form.rounder_bits)
    n = b.sub(shifted, form.rounder)
    high, low = LN2[x.type]
    return count, b.fma(n, -low, b.fma(n, -high, x))


def exp_minus_one(b: MacroBuilder, r: MacroValue) -> MacroValue:
    """Compute e^r - 1 for |r| <= ln(2) / 2."""
    return b.fma(b.polynomial(r, polynomial_coefficients.EXP[r.type]), b.mul(r, r), r)


def scaled(b: MacroBuilder, y: MacroValue, count: MacroValue) -> MacroValue:
    """Compute y * 2^count, where the result may be subnormal or infinite."""
    half = b.shift_right(count, 1)
    return b.mul(b.mul(y, b.power_of_two(half, y.type)), b.power_of_two(b.sub(count, half), y.type))


def exponential(b: MacroBuilder, x: MacroValue, more: Source | None = None) -> MacroValue:
    """VEXP. ``more`` is added to x; it is smaller than x's last digit."""
    clamped = b.clamp(x, _BOTTOM[x.type], _TOP[x.type])
    count, r = reduced(b, clamped)
    if more is not None:
        r = b.add(r, b.select(b.equal(x, clamped), more, 0.0))
    return scaled(b, b.add(exp_minus_one(b, r), 1.0), count)


def power_of_two(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VEXP2."""
    form = FORMATS[x.type]
    clamped = b.clamp(x, _BOTTOM[x.type] / log(2) - 1, _TOP[x.type] / log(2) + 1)
    shifted = b.add(clamped, form.rounder)
    count = b.sub(b.bits(shifted, form.integer), form.rounder_bits)
    r = b.mul(b.sub(clamped, b.sub(shifted, form.rounder)), log(2))
    return scaled(b, b.add(exp_minus_one(b, r), 1.0), count)


def exponential_less_one(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VEXPM1: 2^n (e^r - 1) + (2^n - 1), with 2^n as a product of two powers."""
    clamped = b.clamp(x, -45.0, _TOP[x.type])
    count, r = reduced(b, clamped)
    half = b.shift_right(count, 1)
    other = b.sub(count, half)
    near, far, back = (b.power_of_two(k, x.type) for k in (half, other, b.sub(0, other)))
    result = b.mul(b.fma(exp_minus_one(b, r), near, b.sub(near, back)), far)
    return b.select(b.equal(x, 0.0), x, result)


def _halves(
    b: MacroBuilder, x: MacroValue
) -> tuple[MacroValue, MacroValue, MacroValue, MacroValue]:
    """Return (2^n + 2^-n) / 8, (2^n - 2^-n) / 8, sinh(r) and cosh(r) - 1.

    The division by 8 avoids overflow.
    """
    clamped = b.clamp(b.magnitude(x), None, _TOP[x.type] + 1)
    count, r = reduced(b, clamped)
    # 2^-n is below the last digit of 2^n for a larger n, so n is clamped there.
    least = b.select(b.less(FORMATS[x.type].digits, count), FORMATS[x.type].digits, count)
    up, down = b.power_of_two(b.sub(count, 3), x.type), b.power_of_two(b.sub(-3, least), x.type)
    square = b.mul(r, r)
    sine = b.fma(b.mul(square, b.polynomial(square, polynomial_coefficients.SINH[x.type])), r, r)
    cosine = b.mul(square, b.polynomial(square, polynomial_coefficients.COSH[x.type]))
    return b.add(up, down), b.sub(up, down), sine, cosine


def hyperbolic_sine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VSINH."""
    total, difference, sine, cosine = _halves(b, x)
    result = b.fma(total, sine, b.fma(difference, cosine, difference))
    return b.with_sign(b.mul(result, 4.0), x)


def hyperbolic_cosine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VCOSH."""
    total, difference, sine, cosine = _halves(b, x)
    return b.mul(b.fma(difference, sine, b.fma(total, cosine, total)), 4.0)


def hyperbolic_tangent(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VTANH: (e^2|x| - 1) / (e^2|x| + 1)."""
    doubled = b.clamp(b.mul(b.magnitude(x), 2.0), None, 45.0)
    growth = exponential_less_one(b, doubled)
    return b.with_sign(quotient(b, growth, b.add(growth, 2.0)), x)
