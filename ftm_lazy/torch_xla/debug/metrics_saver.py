"""torch_xla.debug.metrics_saver: append the metrics of each step to ``XLA_METRICS_FILE``."""

from __future__ import annotations

import itertools
import os
import sys

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.debug import metrics

__all__ = ["save_metrics"]

_steps = itertools.count()


def save_metrics(metrics_file: str | None = None) -> None:
    """Append a metrics report to a file.

    Args:
        metrics_file: Path of the file, STDERR or STDOUT. None for ``XLA_METRICS_FILE``; then, with
            several processes, each appends its ordinal to the path.
    """
    name = metrics_file or os.environ.get("XLA_METRICS_FILE")
    if name is None:
        return
    text = f"[MetricsData; step={next(_steps)}]\n{metrics.metrics_report()}\n"
    if name in ("STDERR", "STDOUT"):
        print(text, file=sys.stderr if name == "STDERR" else sys.stdout)
        return
    if metrics_file is None and _world.size() > 1:
        name = f"{name}.{_world.local_ordinal()}"
    with open(name, "a") as file:
        file.write(text)
