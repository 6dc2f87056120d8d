"""The findings of the last profile, for `ftm_lazy.metrics.report`."""

from __future__ import annotations

from collections.abc import Sequence

MOST_ADVICE = 3
"""Findings in summaries."""

_last: list[str] = []


def set_last_advice(advice: Sequence[object]) -> None:
    """Keep the text of the first findings."""
    _last[:] = [str(each) for each in advice[:MOST_ADVICE]]


def last_advice() -> list[str]:
    """Return the text of the last profile's first findings; empty without a profile."""
    return list(_last)
