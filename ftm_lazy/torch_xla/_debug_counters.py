"""Counters that torch_xla has and ftm lacks, and the debug output after each step."""

from __future__ import annotations

import os
from collections import Counter

from ftm_lazy.torch_xla import _analysis

__all__ = ["COUNTS", "count", "end_of_step"]

COUNTS: Counter[str] = Counter()
"""Counters in addition to those of `ftm_lazy.metrics`."""


def count(name: str, by: int = 1) -> None:
    """Add to a counter."""
    COUNTS[name] += by


def end_of_step() -> None:
    """Write the step's analysis, and the metrics to ``XLA_METRICS_FILE``, if enabled."""
    _analysis.end_of_step()
    if os.environ.get("XLA_METRICS_FILE"):
        from ftm_lazy.torch_xla.debug import metrics_saver

        metrics_saver.save_metrics()
