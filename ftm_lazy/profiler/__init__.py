"""Profiler of the device: where a program's time and memory go, in the model's own names.

Example:
    >>> with ftm_lazy.profile() as p:
    ...     for batch in loader:
    ...         train(batch)
    >>> print(p)                    # steps, the ten costliest kernels, advice
    >>> p.html("report.html")       # one file that opens in any browser

`torch.profiler` shows the same kernels, with its own tables and formats. Both read one record of
events (csrc/torch/profile_events.h).
"""

from __future__ import annotations

from ftm_lazy.profiler.session import profile
from ftm_lazy.profiler.views import Profile

__all__ = ["Profile", "profile"]
