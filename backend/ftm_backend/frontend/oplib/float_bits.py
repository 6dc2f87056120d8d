"""Operations on the bit patterns of floats: adjacent numbers and directed rounding."""

from __future__ import annotations

import math

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.scalar_math import Number, ScalarExpr

LAYOUT = {"f32": ("i32", 23), "f64": ("i64", 52), "f16": ("i16", 10), "bf16": ("i16", 7)}
"""The integer dtype of a float's width, and the number of its fraction bits."""


def next_after(x: ScalarExpr, toward: Number) -> ScalarExpr:
    """Return the number adjacent to `x` in the direction of `toward`, in x's dtype."""
    target = toward if isinstance(toward, ScalarExpr) else x.const(toward)
    integer, _ = LAYOUT[x.dtype]
    bits = x.bitcast(integer)
    outward = (target > x) ^ (x < 0)
    moved = e.where(outward, bits + 1, bits - 1).bitcast(x.dtype)
    smallest = bits.const(1).bitcast(x.dtype)
    value = e.where(x.eq(0), e.copysign(smallest, target), moved)
    value = e.where(x.eq(target), target, value)
    return e.where(e.isnan(x), x, e.where(e.isnan(target), target, value))


def round_down(x: ScalarExpr, token: str) -> ScalarExpr:
    """Return the largest number of the float dtype `token` that is at most `x`.

    `x` may be an integer.
    """
    nearest = x.to(token)
    return (
        nearest
        if token == x.dtype
        else e.where(nearest.to(x.dtype) > x, next_after(nearest, -math.inf), nearest)
    )


def round_up(x: ScalarExpr, token: str) -> ScalarExpr:
    """Return the smallest number of the float dtype `token` that is at least `x`.

    `x` may be an integer.
    """
    nearest = x.to(token)
    return (
        nearest
        if token == x.dtype
        else e.where(nearest.to(x.dtype) < x, next_after(nearest, math.inf), nearest)
    )
