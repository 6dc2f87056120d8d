"""Op records of the normal distribution: erfinv, quantiles, logarithms of tails, entropy."""

from __future__ import annotations

import math

from ftm_backend.dtypes import ALL
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.chebyshev_fit import ChebyshevFit
from ftm_backend.frontend.oplib.pointwise import pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr

_TOLERANCE = {
    "f64": (1e-10, 1e-12),
    "f32": (2e-5, 1e-6),
    "f16": (2e-3, 1e-4),
    "bf16": (1.6e-2, 1e-3),
}


def _scaled_tail(x: float) -> float:
    """exp(x * x) * erfc(x) for x >= 0; from 2 on its continued fraction, which converges fast."""
    if x < 2:
        return math.exp(x * x) * math.erfc(x)
    value = x
    for k in range(120, 0, -1):
        value = x + k / 2 / value
    return 1 / (value * math.sqrt(math.pi))


def _inverse_at_centre(square: float) -> float:
    """erfinv(x) / x at x = sqrt(square) > 0, by Newton's method."""
    x = math.sqrt(square)
    y = x * math.sqrt(math.pi) / 2
    for _ in range(8):
        y -= (math.erf(y) - x) * math.exp(y * y) * math.sqrt(math.pi) / 2
    return y / x


def _inverse_of_tail(z: float) -> float:
    """Y / z with erfc(y) = exp(-z * z), by Newton's method on log(erfc)."""
    y = z
    for _ in range(12):
        tail = _scaled_tail(y)
        y += (math.log(tail) - y * y + z * z) * tail * math.sqrt(math.pi) / 2
    return y / z


_CENTRE = 0.5  # the fit at the centre ends here
_CENTRE_FIT = ChebyshevFit(_inverse_at_centre, 0, _CENTRE * _CENTRE, 16)
# In t = 1 / (z + 2); z = 27.5 is left of the smallest denormal number.
_TAIL_FIT = ChebyshevFit(
    lambda t: _inverse_of_tail(1 / t - 2),
    1 / 29.5,
    1 / (math.sqrt(-math.log(1 - _CENTRE)) + 2),
    40,
)


def _inverse(x: ScalarExpr, rest: ScalarExpr) -> ScalarExpr:
    """Return y >= 0 with erf(y) = x and erfc(y) = rest, for x in [0, 1] and rest = 1 - x.

    `rest` is exact near x = 1.
    """
    z = e.sqrt(-e.log(e.minimum(rest, 1 - _CENTRE)))
    tail = z * _TAIL_FIT(z.const(1) / (z + 2))
    near = e.minimum(x, _CENTRE)
    value = e.where(x < _CENTRE, near * _CENTRE_FIT(near * near), tail)
    return e.where(rest.eq(0), math.inf, value)


def erfinv(self: ScalarExpr) -> ScalarExpr:
    """Return the inverse of erf; infinite at -1 and 1, NaN beyond."""
    size = abs(self)
    value = e.copysign(_inverse(size, size.const(1) - size), self)
    return e.where(size <= 1, value, math.nan)


def ndtri(self: ScalarExpr) -> ScalarExpr:
    """Return the quantile function of the normal distribution."""
    lower = self < 0.5
    tail = e.where(lower, self, self.const(1) - self)
    value = _inverse(tail.const(1) - tail * 2, tail * 2) * math.sqrt(2)
    return e.where((self >= 0) & (self <= 1), e.where(lower, -value, value), math.nan)


# In t = 4 / (4 + x); the factor 1 + x keeps it away from 0.
_ERFCX = ChebyshevFit(
    lambda t: _scaled_tail(4 / t - 4) * (4 / t - 3) if t else 1 / math.sqrt(math.pi), 0, 1, 40
)


def erfcx(self: ScalarExpr) -> ScalarExpr:
    """Return exp(x * x) * erfc(x)."""
    x = abs(self)
    right = e.where(x.eq(math.inf), 0, _ERFCX(x.const(4) / (x + 4)) / (x + 1))
    square = self * self
    power = e.exp(square)
    # exp multiplies what rounding cut off from the square
    power = e.where(power < math.inf, power + power * e.fma(self, self, -square), power)
    return e.where(self < 0, power * 2 - right, right)


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
