"""torch_xla.debug.metrics: counters and times with torch_xla's names, in its text format.

The counters:

- MarkStep: calls of `sync` and `mark_step`.
- DynamoExtractCompiledGraph: graphs that `torch.compile` compiled for torch_xla's backend.
- CreateXlaTensor: operations recorded.
- UncachedCompile: programs that were new to this process.
- CachedCompile: programs that were not.
- PersistentCacheHit, PersistentCacheMiss: new programs that were on disk, or had to be compiled.
- xla::<op>: calls of an operation that were recorded. A call in place counts as one of the
  operation that computes the new value: `add_` as `add`.
- aten::<op>: operations that ran on the CPU.

The metrics CompileTime, ExecuteTime, TransferToDeviceTime and TransferFromDeviceTime are in
nanoseconds; OutboundData (to the device) and InboundData (from it) are in bytes.
`ftm_lazy.metrics` has ftm's own counters.
"""

from __future__ import annotations

from collections.abc import Callable

from ftm_lazy import _C
from ftm_lazy import metrics as ftm
from ftm_lazy.torch_xla import _debug_counters

__all__ = [
    "clear_all",
    "clear_counters",
    "clear_metrics",
    "counter_names",
    "counter_value",
    "executed_fallback_ops",
    "metric_data",
    "metric_names",
    "metrics_report",
    "short_metrics_report",
]

_FALLBACK = "fallback::"

_COUNTERS: dict[str, Callable[[dict[str, int]], int]] = {
    "CreateXlaTensor": lambda ftm: ftm["ops_traced"],
    "UncachedCompile": lambda ftm: ftm["compiles"] + ftm["cache_hits_disk"],
    "CachedCompile": lambda ftm: ftm["cache_hits_memory"],
    "PersistentCacheHit": lambda ftm: ftm["cache_hits_disk"],
    "PersistentCacheMiss": lambda ftm: ftm["compiles"],
}

_cleared: dict[str, int] = {}  # values at `clear_counters`, which leaves ftm's counters alone


def _all() -> dict[str, int]:
    values = ftm.counters()
    found = {name: count(values) for name, count in _COUNTERS.items()} | _debug_counters.COUNTS
    for name, calls in _C._recorded_calls().items():
        counter = "xla::" + name.partition("::")[2].partition(".")[0]
        found[counter] = found.get(counter, 0) + calls
    found |= {
        name.removeprefix(_FALLBACK): n for name, n in values.items() if name.startswith(_FALLBACK)
    }
    return dict(sorted(found.items()))


def _counters() -> dict[str, int]:
    """Return the counters that have increased since `clear_counters`."""
    values = {name: value - _cleared.get(name, 0) for name, value in _all().items()}
    return {name: value for name, value in values.items() if value > 0}


def counter_names() -> list[str]:
    """Return the names of the counters that are not 0."""
    return list(_counters())


def counter_value(name: str) -> int | None:
    """Return the value of a counter; None if it is 0."""
    return _counters().get(name)


def clear_counters() -> None:
    """Set all counters to 0; those of `ftm_lazy.metrics` keep their values."""
    _cleared.clear()
    _cleared.update(_all())


def metric_names() -> list[str]:
    """Return the names of the metrics that have samples."""
    return sorted(_C._metric_names())


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """Return a metric's data.

    Args:
        name: The metric.

    Returns:
        Number of samples, their sum, and the last samples as (time in s, value). None without
        samples.
    """
    return _C._metric_data(name)


def clear_metrics() -> None:
    """Discard all samples."""
    _C._reset_metrics()


def clear_all() -> None:
    """Call `clear_metrics` and `clear_counters`."""
    clear_metrics()
    clear_counters()


def metrics_report() -> str:
    """Format all metrics and counters in torch_xla's text format."""
    return _text(metric_names(), counter_names())


def short_metrics_report(
    counter_names: list[str] | None = None, metric_names: list[str] | None = None
) -> str:
    """Format selected metrics and counters; operations that ran on the CPU are always included.

    Args:
        counter_names: The counters; None for the most important ones.
        metric_names: The metrics; None for the most important ones.
    """
    values = _counters()
    counters = counter_names or ["CachedCompile", "MarkStep", "DynamoSyncInputExecuteTime"]
    metrics = metric_names or [
        "CompileTime",
        "ExecuteTime",
        "ExecuteReplicatedTime",
        "TransferToDeviceTime",
        "TransferFromDeviceTime",
    ]
    shown = [name for name in values if name in counters or name.startswith("aten::")]
    return _text([name for name in metrics if name in _C._metric_names()], shown)


def _text(metrics: list[str], counters: list[str]) -> str:
    values = _counters()
    return _C._metric_report(metrics) + "".join(
        f"Counter: {name}\n  Value: {values[name]}\n" for name in counters
    )


def executed_fallback_ops() -> list[str]:
    """Return the names of the operations that ran on the CPU."""
    return [name for name in _counters() if name.startswith("aten::")]
