"""What torch_xla counts and ftm does not: steps that were marked, and what is told after each of
them if the environment asks for it.
"""

from __future__ import annotations

import os
from collections import Counter

from ftm_lazy.torch_xla import _analysis

__all__ = ["COUNTS", "count", "end_of_step"]

COUNTS: Counter[str] = Counter()
"""Counters beside those of ftm."""


def count(name: str, by: int = 1) -> None:
    """Add to a counter."""
    COUNTS[name] += by


def end_of_step() -> None:
    """Write the metrics where ``XLA_METRICS_FILE`` says, and what `_analysis` has to tell."""
    _analysis.end_of_step()
    if os.environ.get("XLA_METRICS_FILE"):
        from ftm_lazy.torch_xla.debug import metrics_saver

        metrics_saver.save_metrics()
