"""Throughput of a loop."""

from __future__ import annotations

import os
import time

__all__ = ["RateTracker"]


class RateTracker:
    """Measures items per second, smoothed and since the start.

    Args:
        smooth_factor: Weight of earlier rates in `rate`; None for ``RATE_TRACKER_SMOOTHING``, or
            0.4 if that is unset.
    """

    def __init__(self, smooth_factor: float | None = None) -> None:
        self._smooth = (
            float(os.environ.get("RATE_TRACKER_SMOOTHING", 0.4))
            if smooth_factor is None
            else smooth_factor
        )
        self._start = self._last = time.time()
        self._total = self._since = 0.0
        self._rate: float | None = None

    def add(self, count: float) -> None:
        """Count `count` more items."""
        self._since += count

    def rate(self) -> float:
        """Return the items per second since the last call, smoothed with its result."""
        now = time.time()
        passed = now - self._last
        if passed <= 0:
            return 0.0
        rate = self._since / passed
        if self._rate is not None:
            rate = (1 - self._smooth) * rate + self._smooth * self._rate
        self._total, self._since, self._last, self._rate = self._total + self._since, 0.0, now, rate
        return rate

    def global_rate(self) -> float:
        """Return the items per second since the start."""
        passed = time.time() - self._start
        return (self._total + self._since) / passed if passed > 0 else 0.0
