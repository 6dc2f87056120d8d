"""Op records of the normal distribution: erfinv, quantiles, logarithms of tails, entropy."""

from __future__ import annotations

import math

from ftm_backend.dtypes import ALL
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.chebyshev_fit import ChebyshevFit, polynomial
from ftm_backend.frontend.oplib.pointwise import pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr

_TOLERANCE = {
    "f64": (1e-10, 1e-12),
    "f32": (2e-5, 1e-6),
    "f16": (2e-3, 1e-4),
    "bf16": (1.6e-2, 1e-3),
}


_FAR_TAIL = {"f32": 1e-36, "f64": 1e-304}
"""Tail probability below which ``exp(y * y)`` of the quantile y overflows."""


def _inverse(x: ScalarExpr, rest: ScalarExpr) -> ScalarExpr:
    """Return y >= 0 with erf(y) = x and erfc(y) = rest, for x in [0, 1] and rest = 1 - x.

    `rest` is exact near x = 1.
    """
    centre = x < 0.5
    a = 0.147
    log = e.log(rest * (rest.const(2) - rest))
    half = log * 0.5 + 2 / (math.pi * a)
    y = e.where(
        centre,
        x * polynomial(x * x, 0.88622693, 0.23201367, 0.12755618),
        e.sqrt(e.sqrt(half * half - log / a) - half),
    )
    for _ in range(2):  # Halley's method: each iteration triples the number of digits
        error = e.where(centre, e.erf(y) - x, rest - e.apply("math.erfc", y))
        step = error * e.exp(y * y) * (math.sqrt(math.pi) / 2)
        y = y - step / (y * step + 1)
    return e.where(rest.eq(0), math.inf, e.where(x.eq(0), 0, y))


def _far_inverse(rest: ScalarExpr) -> ScalarExpr:
    """Return y with erfc(y) = rest where exp(y * y) would overflow.

    Newton's method on the logarithm of erfc's asymptotic series.
    """
    log = e.log(rest)
    y = e.sqrt(-log - e.log(-log * math.pi) * 0.5)
    for _ in range(2):
        over = y.const(1) / (y * y)
        series = e.log1p(over * polynomial(over, -0.5, 0.75, -1.875))
        missing = series - y * y - e.log(y * math.sqrt(math.pi)) - log
        y = y + missing / (y * 2 + y.const(1) / y)
    return y


def erfinv(self: ScalarExpr) -> ScalarExpr:
    """Return the inverse of erf; infinite at -1 and 1, NaN beyond."""
    size = abs(self)
    value = e.copysign(_inverse(size, size.const(1) - size), self)
    return e.where(size <= 1, value, math.nan)


def ndtri(self: ScalarExpr) -> ScalarExpr:
    """Return the quantile function of the normal distribution."""
    lower = self < 0.5
    tail = e.where(lower, self, self.const(1) - self)
    far = (self > 0) & (self < _FAR_TAIL[self.dtype])
    inverse = e.where(
        far,
        _far_inverse(e.where(far, self * 2, _FAR_TAIL[self.dtype])),
        _inverse(tail.const(1) - tail * 2, tail * 2),
    )
    value = inverse * math.sqrt(2)
    return e.where((self >= 0) & (self <= 1), e.where(lower, -value, value), math.nan)


def _scaled_tail(x: float) -> float:
    """Return exp(x * x) * erfc(x), by its continued fraction where that converges fast."""
    if x < 2:
        return math.exp(x * x) * math.erfc(x)
    value = x
    for k in range(120, 0, -1):
        value = x + k / 2 / value
    return 1 / (value * math.sqrt(math.pi))


# A function of t = 4 / (4 + x); the factor 1 + x keeps it away from 0.
_ERFCX = ChebyshevFit(
    lambda t: _scaled_tail(4 / t - 4) * (4 / t - 3) if t else 1 / math.sqrt(math.pi), 0, 1, 40
)


def erfcx(self: ScalarExpr) -> ScalarExpr:
    """Return exp(x * x) * erfc(x)."""
    x = abs(self)
    right = e.where(x.eq(math.inf), 0, _ERFCX(x.const(4) / (x + 4)) / (x + 1))
    return e.where(self < 0, e.exp(self * self) * 2 - right, right)


def log_ndtr(self: ScalarExpr) -> ScalarExpr:
    """Return the log of the normal distribution function, without underflow on the left."""
    x = self * math.sqrt(0.5)
    left = e.log(erfcx(-x) * 0.5) - x * x
    right = e.log1p(e.apply("math.erfc", x) * -0.5)
    return e.where(self < -1, e.where(self.eq(-math.inf), -math.inf, left), right)


def _entropy(self: ScalarExpr) -> ScalarExpr:
    value = e.where(
        self > 0, -self * e.log(self), e.where(self.eq(0), 0, -math.inf * self.const(1))
    )
    return e.where(e.isnan(self), self, value)


def _xlog1py(self: ScalarExpr, other: ScalarExpr) -> ScalarExpr:
    product = e.where(self.eq(0), 0, self * e.log1p(other))
    return e.where(e.isnan(other), other, product)


pointwise("aten::erfinv", erfinv, ALL, "unary", tolerance=_TOLERANCE)
pointwise("aten::special_ndtri", ndtri, ALL, "unary", tolerance=_TOLERANCE)
pointwise("aten::special_erfcx", erfcx, ALL, "unary", tolerance=_TOLERANCE)
pointwise("aten::special_log_ndtr", log_ndtr, ALL, "unary", tolerance=_TOLERANCE)
pointwise("aten::special_entr", _entropy, ALL, "unary")
pointwise(
    "aten::special_xlog1py aten::special_xlog1py.other_scalar aten::special_xlog1py.self_scalar",
    _xlog1py,
    ALL,
    "binary",
    tolerance={**_TOLERANCE, "f32": (5e-4, 2e-6)},
)  # upstream's engine, which tests it, spells log1p(x) as log(1 + x)
