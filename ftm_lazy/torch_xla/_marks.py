"""What torch_xla counts and ftm does not: steps that were marked, and the report that follows each of them if
``XLA_METRICS_FILE`` asks for it.
"""

from __future__ import annotations

import os
from collections import Counter

__all__ = ["COUNTS", "count", "end_of_step"]

COUNTS: Counter[str] = Counter()
"""Counters beside those of ftm."""


def count(name: str, by: int = 1) -> None:
    """Adds to a counter."""
    COUNTS[name] += by


def end_of_step() -> None:
    """Writes the metrics where ``XLA_METRICS_FILE`` says."""
    if os.environ.get("XLA_METRICS_FILE"):
        from ftm_lazy.torch_xla.debug import metrics_saver

        metrics_saver.save_metrics()
