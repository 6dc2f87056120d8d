"""Chebyshev approximations of functions of one variable, fitted on first compilation.

A special function is given as plain Python that is accurate to double precision but too slow for a
device (a series, an integral). `ChebyshevFit` samples it once, and builds the scalar expression of
a body with as many terms as the dtype needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ftm_backend.dtypes import info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.scalar_math import ScalarExpr


class ChebyshevFit:
    """A function on ``[low, high]`` as a sum of Chebyshev polynomials.

    Args:
        function: A smooth function from float to float on the closed interval.
        low: Lower end of the interval.
        high: Upper end of the interval.
        terms: Number of terms that suffices for f64.
    """

    def __init__(
        self, function: Callable[[float], float], low: float, high: float, terms: int = 32
    ) -> None:
        """Store the arguments; `function` is sampled on first use."""
        self.function, self.low, self.high, self.terms = function, low, high, terms
        self._coefficients: list[float] = []

    def coefficients(self, dtype: str) -> list[float]:
        """Return the significant terms for `dtype`, lowest degree first."""
        if not self._coefficients:
            self._coefficients = self._sample()
        all_, least = (
            self._coefficients,
            2.0 ** -(info(dtype).digits + 2) * max(map(abs, self._coefficients)),
        )
        last = max(k for k, c in enumerate(all_) if abs(c) > least)
        return all_[: last + 1]

    def _sample(self) -> list[float]:
        n = self.terms
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        values = [self.function(middle + half * _cosine(2 * k + 1, 2 * n)) for k in range(n)]
        return [
            (1 if j == 0 else 2)
            / n
            * math.fsum(v * _cosine(j * (2 * k + 1), 2 * n) for k, v in enumerate(values))
            for j in range(n)
        ]

    def __call__(self, x: ScalarExpr) -> ScalarExpr:
        """Evaluate the sum at a ScalarExpr in the interval, by Clenshaw's recurrence."""
        twice = (x * 2 - (self.low + self.high)) * (2 / (self.high - self.low))
        first, *rest = self.coefficients(x.dtype)
        later = last = x.const(0)
        for c in reversed(rest):
            later, last = twice * later - last + c, later
        return later * twice * 0.5 - last + first


def _cosine(numerator: int, denominator: int) -> float:
    """cos(pi * numerator / denominator), right to the last digits.

    The argument is reduced as a fraction: a double near 100 is off by 1e-14.
    """
    turns = numerator % (2 * denominator)
    folded = min(turns, 2 * denominator - turns)  # cos(2 pi - a) = cos(a)
    if 2 * folded > denominator:
        return -_cosine(denominator - folded, denominator)
    if 4 * folded > denominator:
        return math.sin(math.pi * (denominator - 2 * folded) / (2 * denominator))
    return math.cos(math.pi * folded / denominator)


def integral(function: Callable[[float], complex], step: float, end: float) -> complex:
    """Integrate an even function over the real line by the trapezoidal rule, cut at `end`.

    Exact up to rounding for functions that are analytic near the real line and vanish at `end`.
    """
    count = round(end / step)
    values = [function(k * step) for k in range(1, count + 1)]
    return step * (function(0.0) + 2 * sum(reversed(values)))  # add the smallest values first


def polynomial(x: ScalarExpr, *coefficients: float) -> ScalarExpr:
    """Return the sum of ``coefficients[k] * x**k``."""
    result = x.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = e.fma(result, x, x.const(c))
    return result
