"""Expansions of minimum, maximum, sign operations and rounding to integers."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.target.element_types import FLOATS
from ftm_backend.target.macros.macro_builder import FORMATS, MacroBuilder, MacroValue


def _extreme(
    b: MacroBuilder, first: MacroValue, second: MacroValue, beyond: MacroValue
) -> MacroValue:
    """Return ``second`` where ``beyond`` is true or it is NaN, else ``first``."""
    result = b.select(beyond, second, first)
    return b.select(b.not_equal(second, second), second, result) if first.type in FLOATS else result


def minimum(b: MacroBuilder, x: MacroValue, y: MacroValue) -> MacroValue:
    """VMIN."""
    return _extreme(b, x, y, b.less(y, x))


def maximum(b: MacroBuilder, x: MacroValue, y: MacroValue) -> MacroValue:
    """VMAX."""
    return _extreme(b, x, y, b.less(x, y))


def minimum_number(b: MacroBuilder, x: MacroValue, y: MacroValue) -> MacroValue:
    """VMINN."""
    return b.select(b.or_(b.less(y, x), b.not_equal(x, x)), y, x)


def maximum_number(b: MacroBuilder, x: MacroValue, y: MacroValue) -> MacroValue:
    """VMAXN."""
    return b.select(b.or_(b.less(x, y), b.not_equal(x, x)), y, x)


def copy_sign(b: MacroBuilder, x: MacroValue, signed: MacroValue) -> MacroValue:
    """VCOPYSIGN."""
    return b.with_sign(b.magnitude(x), signed)


def _rounded(
    b: MacroBuilder,
    x: MacroValue,
    settle: Callable[[MacroBuilder, MacroValue, MacroValue], MacroValue],
) -> MacroValue:
    """Round |x| to nearest, adjust it by ``settle`` and restore the sign.

    Numbers of at least ``digits`` digits are integers already; NaN stays.
    """
    form = FORMATS[x.type]
    a = b.magnitude(x)
    nearest = b.sub(b.add(a, 2.0**form.stored), 2.0**form.stored)
    result = settle(b, x, b.with_sign(nearest, x))
    return b.select(b.less(a, 2.0**form.stored), result, x)


def nearest(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VROUND."""
    return _rounded(b, x, lambda b, x, r: r)


def _step(
    b: MacroBuilder, x: MacroValue, r: MacroValue, wrong: MacroValue, step: float
) -> MacroValue:
    return b.with_sign(b.magnitude(b.select(wrong, b.add(r, step), r)), x)


def floor(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VFLOOR."""
    return _rounded(b, x, lambda b, x, r: _step(b, x, r, b.less(x, r), -1.0))


def ceiling(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VCEIL."""
    return _rounded(b, x, lambda b, x, r: _step(b, x, r, b.less(r, x), 1.0))


def towards_zero(b: MacroBuilder, x: MacroValue) -> MacroValue:
    """VTRUNC."""

    def settle(b: MacroBuilder, x: MacroValue, r: MacroValue) -> MacroValue:
        a, size = b.magnitude(x), b.magnitude(r)
        return b.with_sign(b.select(b.less(a, size), b.sub(size, 1.0), size), x)

    return _rounded(b, x, settle)
