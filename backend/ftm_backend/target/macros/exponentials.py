"""Exponentials and the hyperbolic functions that are made of them.

e^x = 2^n e^r with n the integer nearest to x / ln 2, so that |r| <= ln(2) / 2 and a polynomial
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
"""ln 2 as a sum whose first part has so few digits that products with exponents are exact."""

_LOG2_E = 1.4426950408889634
_TOP = {"F32": 89.0, "F64": 710.0}
"""From here on e^x is infinite."""
_BOTTOM = {"F32": -104.0, "F64": -746.0}
"""Down to here e^x is not 0."""


def reduced(b: MacroBuilder, x: MacroValue) -> tuple[MacroValue, MacroValue]:
    """n, as an integer of x's size, and r."""
    form = FORMATS[x.type]
    shifted = b.fma(x, _LOG2_E, form.rounder)
    count = b.sub(b.bits(shifted, form.integer), form.rounder_bits)
    n = b.sub(shifted, form.rounder)
    high, low = LN2[x.type]
    return count, b.fma(n, -low, b.fma(n, -high, x))


def grown(b: MacroBuilder, r: MacroValue) -> MacroValue:
    """e^r - 1 for |r| <= ln(2) / 2."""
    return b.fma(b.polynomial(r, polynomial_coefficients.EXP[r.type]), b.mul(r, r), r)


def scaled(b: MacroBuilder, y: MacroValue, count: MacroValue) -> MacroValue:
    """y * 2^count, where that may be subnormal or infinite."""
    half = b.right(count, 1)
    return b.mul(b.mul(y, b.power_of_two(half, y.type)), b.power_of_two(b.sub(count, half), y.type))


def exponential(b: MacroBuilder, x: MacroValue, more: Source | None = None) -> MacroValue:
    """VEXP; ``more``: what is to be added to x, smaller than its last digit."""
    clamped = b.within(x, _BOTTOM[x.type], _TOP[x.type])
    count, r = reduced(b, clamped)
    if more is not None:
        r = b.add(r, b.select(b.equal(x, clamped), more, 0.0))
    return scaled(b, b.add(grown(b, r), 1.0), count)


def power_of_two(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VEXP2."""
    form = FORMATS[x.type]
    clamped = b.within(x, _BOTTOM[x.type] / log(2) - 1, _TOP[x.type] / log(2) + 1)
    shifted = b.add(clamped, form.rounder)
    count = b.sub(b.bits(shifted, form.integer), form.rounder_bits)
    r = b.mul(b.sub(clamped, b.sub(shifted, form.rounder)), log(2))
    return scaled(b, b.add(grown(b, r), 1.0), count)


def exponential_less_one(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VEXPM1: 2^n (e^r - 1) + (2^n - 1), the powers in two halves."""
    clamped = b.within(x, -45.0, _TOP[x.type])
    count, r = reduced(b, clamped)
    half = b.right(count, 1)
    rest = b.sub(count, half)
    near, far, back = (b.power_of_two(k, x.type) for k in (half, rest, b.sub(0, rest)))
    result = b.mul(b.fma(grown(b, r), near, b.sub(near, back)), far)
    return b.select(b.equal(x, 0.0), x, result)


def _halves(
    b: MacroBuilder, x: MacroValue
) -> tuple[MacroValue, MacroValue, MacroValue, MacroValue]:
    """Sum and difference of 2^n and 2^-n, an eighth of them so that none overflows, and sinh(r) and
    cosh(r) - 1."""
    clamped = b.within(b.magnitude(x), None, _TOP[x.type] + 1)
    count, r = reduced(b, clamped)
    # From here on 2^-n adds nothing.
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
    doubled = b.within(b.mul(b.magnitude(x), 2.0), None, 45.0)
    grown_by = exponential_less_one(b, doubled)
    return b.with_sign(quotient(b, grown_by, b.add(grown_by, 2.0)), x)
