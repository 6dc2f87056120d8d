"""Expansions of the error function and its complement."""

from __future__ import annotations

from ftm_backend.target.macros import polynomial_coefficients
from ftm_backend.target.macros.division import quotient
from ftm_backend.target.macros.exponentials import exponential
from ftm_backend.target.macros.macro_builder import MacroBuilder, MacroValue

_NEAR = 0.84375
"""Below this magnitude a polynomial gives erf directly."""


def _near_zero(b: MacroBuilder, a: MacroValue) -> MacroValue:
    square = b.mul(a, a)
    return b.fma(b.polynomial(square, polynomial_coefficients.ERF[a.type]), a, a)


def _complement(b: MacroBuilder, a: MacroValue) -> MacroValue:
    """Compute erfc(a) for a >= 1/2.

    It is e^(-a^2) times a polynomial in (a - 3.75) / (a + 3.75), divided by 1 + 2 a.
    """
    a = b.clamp(a, None, 28.0 if a.type == "F64" else 11.0)
    t = quotient(b, b.sub(a, 3.75), b.add(a, 3.75))
    shape = b.polynomial(t, polynomial_coefficients.ERFC[a.type])
    assert isinstance(shape, MacroValue)
    minus = b.mul(a, -1.0)
    square = b.mul(minus, a)
    decay = exponential(b, square, b.fma(minus, a, b.mul(square, -1.0)))
    return b.mul(decay, quotient(b, shape, b.fma(a, 2.0, 1.0)))


def error_function(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VERF."""
    a = b.magnitude(x)
    near = b.less(a, _NEAR)
    far = b.sub(1.0, _complement(b, b.clamp(a, 0.5, None)))
    return b.with_sign(b.select(near, _near_zero(b, a), far), x)


def complementary_error_function(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VERFC."""
    a = b.magnitude(x)
    far = _complement(b, b.clamp(a, 0.5, None))
    far = b.select(b.less(x, 0.0), b.sub(2.0, far), far)
    return b.select(b.less(a, 0.5), b.sub(1.0, _near_zero(b, x)), far)
