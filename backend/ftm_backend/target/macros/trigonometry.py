"""Expansions of trigonometric functions: Cody-Waite reduction by pi/2, then a polynomial."""

from __future__ import annotations

from math import pi

from ftm_backend.target.macros import polynomial_coefficients
from ftm_backend.target.macros.division import divide, quotient, square_root
from ftm_backend.target.macros.macro_builder import FORMATS, MacroBuilder, MacroValue

HALF_PI = {
    "F32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "F64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
"""pi/2 as a sum of numbers of the type."""

LARGEST = {"F32": 2.0**14, "F64": 2.0**30}
"""Largest magnitude for which three terms of pi/2 suffice.

A larger lane needs more digits of pi, selected by its exponent. The vector unit leaves that to the
scalar unit, whose time is not charged.
"""


def _reduce_angle(b: MacroBuilder, x: MacroValue) -> tuple[MacroValue, MacroValue, MacroValue]:
    """Return the quadrant as an integer, and sine and cosine of the reduced angle."""
    form = FORMATS[x.type]
    shifted = b.fma(x, 2 / pi, form.rounder)
    n = b.sub(shifted, form.rounder)
    r = x
    for part in HALF_PI[x.type]:
        r = b.fma(n, -part, r)
    square = b.mul(r, r)
    sine = b.fma(b.mul(square, b.polynomial(square, polynomial_coefficients.SIN[x.type])), r, r)
    higher = b.mul(b.mul(square, square), b.polynomial(square, polynomial_coefficients.COS[x.type]))
    cosine = b.add(b.fma(square, -0.5, 1.0), higher)
    return b.bits(shifted, form.integer), sine, cosine


def _signed(b: MacroBuilder, y: MacroValue, quadrant: MacroValue) -> MacroValue:
    """Negate y in quadrants 2 and 3."""
    form = FORMATS[y.type]
    sign = b.shift_left(b.and_(quadrant, 2), form.bits - 2)
    return b.bits(b.xor(b.bits(y, form.integer), sign), y.type)


def sine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VSIN."""
    quadrant, s, c = _reduce_angle(b, x)
    y = _signed(b, b.select(b.equal(b.and_(quadrant, 1), 0), s, c), quadrant)
    return b.select(b.equal(x, 0.0), x, y)


def cosine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VCOS."""
    quadrant, s, c = _reduce_angle(b, x)
    return _signed(
        b, b.select(b.equal(b.and_(quadrant, 1), 0), c, s), b.add(quadrant, b.and_(quadrant, 1))
    )


def tangent(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VTAN."""
    quadrant, s, c = _reduce_angle(b, x)
    even = b.equal(b.and_(quadrant, 1), 0)
    y = quotient(b, b.select(even, s, b.mul(c, -1.0)), b.select(even, c, s))
    return b.select(b.equal(x, 0.0), x, y)


def _half_of_arc(b: MacroBuilder, x: MacroValue) -> tuple[MacroValue, MacroValue, MacroValue]:
    """Return, for |x|: |x| > 1/2, s = |x| or sqrt((1 - |x|) / 2), and asin(s)."""
    a = b.magnitude(x)
    upper = b.less(0.5, a)
    rest = b.fma(a, -0.5, 0.5)
    s = b.select(upper, square_root(b, rest), a)
    square = b.select(upper, rest, b.mul(a, a))
    return (
        upper,
        s,
        b.fma(b.mul(square, b.polynomial(square, polynomial_coefficients.ASIN[x.type])), s, s),
    )


def arc_sine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VASIN."""
    high, low, _ = HALF_PI[x.type]
    upper, _, y = _half_of_arc(b, x)
    return b.with_sign(b.select(upper, b.add(b.fma(y, -2.0, low), high), y), x)


def arc_cosine(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VACOS."""
    high, low, _ = HALF_PI[x.type]
    upper, _, y = _half_of_arc(b, x)
    double = b.add(y, y)
    near_one = b.select(b.less(x, 0.0), b.add(b.sub(2 * low, double), 2 * high), double)
    return b.select(upper, near_one, b.add(b.sub(low, b.with_sign(y, x)), high))


_EIGHTH = 0.4142135623730951
"""tan(pi/8)."""


def _arc_tangent(b: MacroBuilder, n: MacroValue, d: MacroValue) -> MacroValue:
    """Compute atan(n / d) for 0 <= n, 0 < d.

    n + d must be finite and n / d a normal number or 0.
    """
    high, low, _ = HALF_PI[n.type]
    above = b.less(b.mul(d, 1 / _EIGHTH), n)
    middle = b.less(b.mul(d, _EIGHTH), n)
    over = b.select(above, b.mul(d, -1.0), b.select(middle, b.sub(n, d), n))
    under = b.select(above, n, b.select(middle, b.add(n, d), d))
    s = divide(b, over, under)
    square = b.mul(s, s)
    y = b.fma(b.mul(square, b.polynomial(square, polynomial_coefficients.ATAN[n.type])), s, s)
    eighths = b.select(above, 1.0, b.select(middle, b.choose(middle, 0.5, 0.5, n.type), 0.0))
    return b.fma(eighths, high, b.fma(eighths, low, y))


def arc_tangent(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VATAN."""
    a = b.clamp(b.magnitude(x), None, 2.0**60)
    return b.with_sign(_arc_tangent(b, a, b.fma(a, 0.0, 1.0)), x)


def arc_tangent_2(b: MacroBuilder, y: MacroValue, x: MacroValue) -> MacroValue:
    """VATAN2: atan of the smaller magnitude over the larger, then the octant."""
    high, low, _ = HALF_PI[y.type]
    a, c = b.magnitude(y), b.magnitude(x)
    steep = b.less(c, a)
    n, d = b.select(steep, c, a), b.select(steep, a, c)
    ratio = divide(b, n, d)
    ratio = b.select(
        b.equal(a, c), b.select(b.equal(a, 0.0), a, b.choose(steep, 1.0, 1.0, y.type)), ratio
    )
    t = _arc_tangent(b, ratio, b.fma(ratio, 0.0, 1.0))
    t = b.select(steep, b.add(b.sub(low, t), high), t)
    form = FORMATS[y.type]
    behind = b.less(b.bits(x, form.integer), 0)
    t = b.select(behind, b.add(b.sub(2 * low, t), 2 * high), t)
    return b.with_sign(t, y)
