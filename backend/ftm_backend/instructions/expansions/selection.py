"""Minima, maxima, signs and rounding to integers."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.instructions.expansions.body import FORMATS, Body, Value
from ftm_backend.instructions.types import FLOATS


def _extreme(b: Body, first: Value, second: Value, beyond: Value) -> Value:
    """The second operand where it is beyond the first or NaN, else the first."""
    result = b.select(beyond, second, first)
    return b.select(b.differ(second, second), second, result) if first.type in FLOATS else result


def minimum(b: Body, x: Value, y: Value) -> Value:
    """VMIN."""
    return _extreme(b, x, y, b.less(y, x))


def maximum(b: Body, x: Value, y: Value) -> Value:
    """VMAX."""
    return _extreme(b, x, y, b.less(x, y))


def minimum_number(b: Body, x: Value, y: Value) -> Value:
    """VMINN."""
    return b.select(b.either(b.less(y, x), b.differ(x, x)), y, x)


def maximum_number(b: Body, x: Value, y: Value) -> Value:
    """VMAXN."""
    return b.select(b.either(b.less(x, y), b.differ(x, x)), y, x)


def copy_sign(b: Body, x: Value, signed: Value) -> Value:
    """VCOPYSIGN."""
    return b.with_sign(b.magnitude(x), signed)


def _rounded(b: Body, x: Value, settle: Callable[[Body, Value, Value], Value]) -> Value:
    """|x| rounded and settled, with x's sign; numbers of full length are integers already, and NaN stays."""
    form = FORMATS[x.type]
    a = b.magnitude(x)
    nearest = b.sub(b.add(a, 2.0**form.stored), 2.0**form.stored)
    result = settle(b, x, b.with_sign(nearest, x))
    return b.select(b.less(a, 2.0**form.stored), result, x)


def nearest(b: Body, x: Value) -> Value:
    """VROUND."""
    return _rounded(b, x, lambda b, x, r: r)


def _step(b: Body, x: Value, r: Value, wrong: Value, step: float) -> Value:
    return b.with_sign(b.magnitude(b.select(wrong, b.add(r, step), r)), x)


def floor(b: Body, x: Value) -> Value:
    """VFLOOR."""
    return _rounded(b, x, lambda b, x, r: _step(b, x, r, b.less(x, r), -1.0))


def ceiling(b: Body, x: Value) -> Value:
    """VCEIL."""
    return _rounded(b, x, lambda b, x, r: _step(b, x, r, b.less(r, x), 1.0))


def towards_zero(b: Body, x: Value) -> Value:
    """VTRUNC."""

    def settle(b: Body, x: Value, r: Value) -> Value:
        a, size = b.magnitude(x), b.magnitude(r)
        return b.with_sign(b.select(b.less(a, size), b.sub(size, 1.0), size), x)

    return _rounded(b, x, settle)
