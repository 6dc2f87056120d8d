"""Functions of one variable as Chebyshev sums, fitted when they are first compiled.

A special function is given as plain Python that is right to double precision but far too slow for a
device (a series, an integral). `ChebyshevFit` samples it once and gives the scalar expression that
a body computes: as many terms as the dtype needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ftm_backend.dtypes import info
from ftm_backend.frontend import scalar_math as e

__all__ = ["ChebyshevFit", "integral", "polynomial"]


class ChebyshevFit:
    """``function`` on [low, high] as a sum of Chebyshev polynomials.

    function: from float to float, smooth on the interval, its end points included. terms: how many
        are enough for f64.
    """

    def __init__(
        self, function: Callable[[float], float], low: float, high: float, terms: int = 32
    ) -> None:
        self.function, self.low, self.high, self.terms = function, low, high, terms
        self._coefficients: list[float] = []

    def coefficients(self, dtype: str) -> list[float]:
        """The terms that matter in ``dtype``, lowest degree first."""
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
        angles = [math.pi * (k + 0.5) / n for k in range(n)]
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        values = [self.function(middle + half * math.cos(a)) for a in angles]
        return [
            (1 if j == 0 else 2)
            / n
            * math.fsum(v * math.cos(j * a) for v, a in zip(values, angles, strict=True))
            for j in range(n)
        ]

    def __call__(self, x: Any) -> Any:
        """The sum at the Elem ``x`` (Clenshaw's recurrence); x lies in the interval."""
        twice = (x * 2 - (self.low + self.high)) * (2 / (self.high - self.low))
        first, *rest = self.coefficients(x.dtype)
        later = last = x.const(0)
        for c in reversed(rest):
            later, last = twice * later - last + c, later
        return later * twice * 0.5 - last + first


def integral(function: Callable[[float], Any], step: float, end: float) -> Any:
    """Trapezoidal sum of an even function over the real line, cut at ``end``: exact up to rounding
    for functions that are analytic near the line and have vanished at ``end``."""
    count = round(end / step)
    values = [function(k * step) for k in range(1, count + 1)]
    return step * (function(0.0) + 2 * sum(reversed(values)))  # smallest first


def polynomial(x: Any, *coefficients: float) -> Any:
    """Sum of coefficients[k] * x**k."""
    result = x.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = e.fma(result, x, x.const(c))
    return result
