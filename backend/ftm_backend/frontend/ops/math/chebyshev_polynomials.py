"""Op records of Chebyshev polynomials of the four kinds, in closed form.

They are trigonometric inside [-1, 1] and hyperbolic outside. The order is a tensor as well, which
rules out a recurrence of fixed length. They are computed in f64, because the closed forms lose
digits near the ends of the interval that a recurrence keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ftm_backend.dtypes import ALL
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.oplib.pointwise import pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr

_ORDERS = 2.0**63
"""The first order that an int64 cannot hold."""

_TOLERANCE = {"f64": (1e-9, 1e-9), "f32": (1e-5, 1e-6), "f16": (2e-3, 1e-4), "bf16": (1.6e-2, 1e-3)}


def _angles(size: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    """Return the arc cosine inside [0, 1] and the hyperbolic arc cosine outside."""
    inside = e.apply("math.acos", e.minimum(size, 1))
    outside = e.maximum(size, 1)
    return inside, e.log(outside + e.sqrt((outside - 1) * (outside + 1)))


def _hyperbolic(x: ScalarExpr, sign: float) -> ScalarExpr:
    """Return cosh (sign 1) or sinh (sign -1) from exponentials."""
    grown = e.exp(x)
    return (grown + (grown.const(1) / grown) * sign) * 0.5


def _ratio(x: ScalarExpr, factor: ScalarExpr, divisor: float, kind: str) -> ScalarExpr:
    """Return f(factor * angle) / f(divisor * angle) for x >= 0, with f sine or cosine.

    Where the angle is 0, return the limit.
    """
    inside, outside = _angles(x)
    if kind == "cos":
        near, far = e.cos(inside * factor), _hyperbolic(outside * factor, 1)
        below, beyond = e.cos(inside * divisor), _hyperbolic(outside * divisor, 1)
    else:
        near, far = e.sin(inside * factor), _hyperbolic(outside * factor, -1)
        below, beyond = e.sin(inside * divisor), _hyperbolic(outside * divisor, -1)
    limit = factor.const(1) if kind == "cos" else factor / divisor
    return e.where(x.eq(1), limit, e.where(x < 1, near / below, far / beyond))


def _first(size: ScalarExpr, n: ScalarExpr, left: ScalarExpr) -> ScalarExpr:
    return _ratio(size, n, 0.0, "cos")


def _second(size: ScalarExpr, n: ScalarExpr, left: ScalarExpr) -> ScalarExpr:
    return _ratio(size, n + 1, 1.0, "sin")


def _third(size: ScalarExpr, n: ScalarExpr, left: ScalarExpr) -> ScalarExpr:
    """For negative x, the third kind is the mirrored fourth kind."""
    return e.where(left, _ratio(size, n + 0.5, 0.5, "sin"), _ratio(size, n + 0.5, 0.5, "cos"))


def _fourth(size: ScalarExpr, n: ScalarExpr, left: ScalarExpr) -> ScalarExpr:
    return e.where(left, _ratio(size, n + 0.5, 0.5, "cos"), _ratio(size, n + 0.5, 0.5, "sin"))


def _register(
    kind: str,
    function: Callable[[ScalarExpr, ScalarExpr, ScalarExpr], ScalarExpr],
    slope: float,
    intercept: float,
) -> None:
    """Register a kind. Its polynomial of order 1, ``slope * x + intercept``, is exact."""

    def polynomial(x: ScalarExpr, n: ScalarExpr, shifted: bool) -> ScalarExpr:
        x, n = x.to("f64"), e.trunc(n.to("f64"))
        if shifted:
            x = x * 2 - 1
        odd = e.floor(n * 0.5).ne(n * 0.5)
        left = x < 0
        value = function(abs(x), n, left)
        value = e.where(left & odd, -value, value)
        value = e.where(n.eq(1), x * slope + intercept, value)
        value = e.where(n.eq(0), 1, e.where(e.isnan(x), math.nan, value))
        # PyTorch converts the order to an int64. NaN and what is too large become negative there.
        return e.where((n >= 0) & (n < _ORDERS), value, 0)

    unshifted = f"aten::special_chebyshev_polynomial_{kind}"
    shifted = f"aten::special_shifted_chebyshev_polynomial_{kind}"
    for name, body in (
        (unshifted, lambda x, n: polynomial(x, n, False)),
        (shifted, lambda x, n: polynomial(x, n, True)),
    ):
        pointwise(name, body, ALL, "chebyshev", tolerance=_TOLERANCE)


_register("t", _first, 1, 0)
_register("u", _second, 2, 0)
_register("v", _third, 2, -1)
_register("w", _fourth, 2, 1)
