"""Op records of the gamma function's family: lgamma, digamma, polygamma, Hurwitz zeta.

All have the same structure: the reflection formula for x < 1/2, then a shift to larger x by
recurrence, then the asymptotic series with Bernoulli numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ftm_backend.dtypes import ALL
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.chebyshev_fit import polynomial
from ftm_backend.frontend.oplib.pointwise import pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr

_TOLERANCE = {
    "f64": (1e-9, 1e-10),
    "f32": (2e-5, 1e-5),
    "f16": (2e-3, 1e-3),
    "bf16": (1.6e-2, 1e-3),
}
"""The functions pass through zero, where only the absolute error is small."""


def _bernoulli(count: int) -> list[Fraction]:
    """Return the Bernoulli numbers B0 to B(count - 1)."""
    numbers = [Fraction(1)]
    for n in range(1, count):
        numbers.append(
            -sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0)) / (n + 1)
        )
    return numbers


_B = _bernoulli(24)


def _terms(x: ScalarExpr) -> tuple[int, int]:
    """Return the number of recurrence steps and of series terms that the dtype needs."""
    return (8, 9) if x.dtype == "f64" else (5, 4)


def _centred(x: ScalarExpr) -> ScalarExpr:
    """Subtract the nearest integer: the result is exact and in [-1/2, 1/2]."""
    return x - e.round_even(x)


def _zeta_minus_one(k: int) -> Fraction:
    """The Riemann zeta function of k >= 2, minus 1, by the Euler-Maclaurin formula from 1/16**k."""
    start = 16
    total = sum((Fraction(1, n**k) for n in range(2, start)), Fraction(0))
    total += Fraction(1, (k - 1) * start ** (k - 1)) + Fraction(1, 2 * start**k)
    rising = k  # k (k + 1) ... (k + 2j - 2)
    for j in range(1, 12):
        total += _B[2 * j] * rising / (math.factorial(2 * j) * start ** (k + 2 * j - 1))
        rising *= (k + 2 * j - 1) * (k + 2 * j)
    return total


_EULER = 0.5772156649015329
_AT_TWO = [1 - _EULER, *(float(_zeta_minus_one(k) * (-1) ** k / k) for k in range(2, 26))]
"""Taylor coefficients of lgamma(2 + z), from z**1."""


def _lgamma_near(x: ScalarExpr, steps: int) -> ScalarExpr:
    """log(gamma(x)) for x in [1/2, steps + 2): the recurrence to [3/2, 5/2) and a Taylor series.

    All terms vanish at 1 and 2, so the relative error is small there as well.
    """
    is_first = x < 1.5  # one step to the right, else none or some to the left
    z, product = x - 2, x.const(1)
    for k in range(1, steps + 1):
        is_beyond = x >= k + 1.5
        z = e.where(is_beyond, x - (k + 2), z)
        product = e.where(is_beyond, product * (x - k), product)
    z = e.where(is_first, x - 1, z)
    log = e.log1p(e.where(is_first, z, product - 1))
    terms = len(_AT_TWO) if x.dtype == "f64" else 11
    return z * polynomial(z, *_AT_TWO[:terms]) + e.where(is_first, -log, log)


def _lgamma_right(x: ScalarExpr) -> ScalarExpr:
    """log(gamma(x)) for x >= 1/2."""
    _, terms = _terms(x)
    steps = 6 if x.dtype == "f64" else 3
    over = x.const(1) / x
    series = over * polynomial(
        over * over, *(float(_B[2 * k] / (2 * k * (2 * k - 1))) for k in range(1, terms))
    )
    log = e.log(x)
    stirling = x * (log - 1) - log * 0.5 + 0.5 * math.log(2 * math.pi) + series
    value = e.where(x < steps + 2, _lgamma_near(x, steps), stirling)
    return e.where(x.eq(math.inf), math.inf, value)


def lgamma(x: ScalarExpr) -> ScalarExpr:
    """Return log(abs(gamma(x))); infinite at 0, -1, -2 ..."""
    left = x < 0.5
    right = _lgamma_right(e.where(left, x.const(1) - x, x))
    size = abs(_centred(x))
    # a denormal product would have few digits
    sine = e.where(size < 2.0**-30, size, e.sin(size * math.pi) * (1 / math.pi))
    mirrored = -e.log(e.where(left, sine, 1)) - right
    value = e.where(left, mirrored, right)
    return e.where(x.eq(-math.inf) | (left & _centred(x).eq(0)), math.inf, value)


def _cotangent(x: ScalarExpr) -> ScalarExpr:
    """Return cot(pi * x), exactly 0 halfway between integers."""
    position = _centred(x)
    return e.sin((position.const(0.5) - abs(position)) * math.pi) / e.sin(position * math.pi)


def digamma(x: ScalarExpr) -> ScalarExpr:
    """Return the derivative of lgamma.

    It is infinite at 0, with the sign of -x, and NaN at negative integers.
    """
    steps, terms = _terms(x)
    left = x < 0.5
    right = e.where(left, x.const(1) - x, x)
    low = right < steps + 2
    shift = right.const(0)
    for k in range(steps + 2):
        shift = shift + right.const(1) / (right + k)
    y = e.where(low, right + (steps + 2), right)
    over = y.const(1) / y
    series = (
        over
        * over
        * polynomial(over * over, *(float(_B[2 * k] / (2 * k)) for k in range(1, terms)))
    )
    value = e.log(y) - over * 0.5 - series - e.where(low, shift, 0)
    value = e.where(left, value - _cotangent(x) * math.pi, value)
    value = e.where(left & _centred(x).eq(0), math.nan, value)
    return e.where(x.eq(0), e.copysign(x.const(math.inf), -x), value)


def _cotangent_derivative(n: int) -> list[float]:
    """Return the n-th derivative of cot(pi * x) as a polynomial in cot(pi * x), over pi**n."""
    p = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(p)][1:]
        p = [-a - b for a, b in zip(slope + [0, 0], [0, 0, *slope], strict=True)]
    return [float(c) for c in p]


def polygamma(n: int, self: ScalarExpr) -> ScalarExpr:
    """Return the n-th derivative of digamma."""
    if n == 0:
        return digamma(self)
    x, sign = self, (-1) ** (n + 1)
    steps, terms = _terms(x)
    steps += n
    left = x < 0.5
    right = e.where(left, x.const(1) - x, x)

    def inverse_power(v: ScalarExpr, count: int) -> ScalarExpr:
        result = over = v.const(1) / v
        for _ in range(count - 1):
            result = result * over
        return result

    shift = right.const(0)
    for k in range(steps):
        shift = shift + inverse_power(right + k, n + 1)
    y = e.where(right < steps, right + steps, right)
    over = y.const(1) / y
    # (n - 1)! / y**n + n! / (2 y**(n + 1)) + sum over even k of (k + n - 1)! / k! B(k) / y**(k + n)
    rest = polynomial(
        over * over,
        math.factorial(n - 1),
        *(
            float(_B[2 * k] * math.factorial(2 * k + n - 1) / math.factorial(2 * k))
            for k in range(1, terms)
        ),
    )
    tail = inverse_power(y, n) * (rest + over * (math.factorial(n) / 2))
    value = (tail + e.where(right < steps, shift * math.factorial(n), 0)) * sign
    mirrored = value * (-1) ** n - polynomial(
        _cotangent(x), *_cotangent_derivative(n)
    ) * math.pi ** (n + 1)
    value = e.where(left, mirrored, value)
    # At -inf the CPU's trigamma gives NaN, its other orders infinity.
    is_pole = _centred(x).eq(0) if n == 1 else e.floor(x).eq(x)
    return e.where((x <= 0) & is_pole, sign * math.inf, value)


def _zeta_right(s: ScalarExpr, q: ScalarExpr) -> ScalarExpr:
    """Sum (q + k)**-s over k for q > 0, s > 1, by the Euler-Maclaurin formula."""
    steps, terms = (10, 9) if s.dtype == "f64" else (6, 5)
    total = s.const(0)
    for k in range(steps):
        total = total + e.pow_(q + k, -s)
    y = q + steps
    power = e.pow_(y, -s)
    over = y.const(1) / y
    total = total + power * (y / (s - 1) + 0.5)
    rising, rest = s * over, s.const(0)
    for k in range(1, terms):
        rest = rest + rising * float(_B[2 * k] / math.factorial(2 * k))
        rising = rising * (s + (2 * k - 1)) * (s + 2 * k) * over * over
    return e.where(power.eq(0), total, total + power * rest)


def zeta(self: ScalarExpr, other: ScalarExpr) -> ScalarExpr:
    """Return the Hurwitz zeta function: the sum of (other + k)**-self over k >= 0.

    For negative `other`, only integral powers are real. The terms left of 0 are then the mirrored
    sum to the right, minus all but its first terms.
    """
    s, q = self, other
    first = q - e.floor(q)
    left = q < 0
    right = _zeta_right(s, e.where(left, first, q))
    mirrored = _zeta_right(s, first.const(1) - first) - _zeta_right(
        s, e.where(left, q.const(1) - q, 1)
    )
    even = e.floor(s * 0.5).eq(s * 0.5)
    value = e.where(left, right + e.where(even, mirrored, -mirrored), right)
    value = e.where(e.isnan(s) | e.isnan(q), math.nan, value)
    value = e.where((q <= 0) & (~e.floor(s).eq(s)), math.nan, value)
    value = e.where((q <= 0) & e.floor(q).eq(q), math.inf, value)
    value = e.where(s < 1, math.nan, value)
    return e.where(s.eq(1), math.inf, value)


pointwise("aten::lgamma", lambda self: lgamma(self), ALL, "unary", tolerance=_TOLERANCE)
pointwise("aten::digamma", lambda self: digamma(self), ALL, "unary", tolerance=_TOLERANCE)
pointwise("aten::polygamma", polygamma, ALL, "polygamma", tolerance=_TOLERANCE)
pointwise("aten::special_zeta", zeta, ALL, "zeta", tolerance=_TOLERANCE)
