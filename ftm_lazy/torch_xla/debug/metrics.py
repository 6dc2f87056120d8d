"""torch_xla.debug.metrics: counters and measured times, under torch_xla's names and in its text
format.

| counter | counts |
|---|---|
| MarkStep | calls of `sync` and `mark_step` |
| CreateXlaTensor | operations recorded |
| UncachedCompile | programs that this process had not seen |
| CachedCompile | programs that it had |
| PersistentCacheHit, PersistentCacheMiss | of the former: those that were on disk, and those that were compiled |
| aten::<op> | operations that ran on the CPU |

Times are CompileTime, ExecuteTime, TransferToDeviceTime and TransferFromDeviceTime in nanoseconds;
OutboundData and InboundData are bytes that came to the device and from it. `ftm_lazy.metrics` has
ftm's own names for the counters.
"""

from __future__ import annotations

from collections.abc import Callable

from ftm_lazy import _C
from ftm_lazy import metrics as ftm
from ftm_lazy.torch_xla import _marks

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

_cleared: dict[str, int] = {}  # ftm's own counters go on counting


def _all() -> dict[str, int]:
    values = ftm.counters()
    found = {name: count(values) for name, count in _COUNTERS.items()} | _marks.COUNTS
    found |= {
        name.removeprefix(_FALLBACK): n for name, n in values.items() if name.startswith(_FALLBACK)
    }
    return dict(sorted(found.items()))


def _counters() -> dict[str, int]:
    """Those that have counted something since `clear_counters`."""
    values = {name: value - _cleared.get(name, 0) for name, value in _all().items()}
    return {name: value for name, value in values.items() if value > 0}


def counter_names() -> list[str]:
    """Return the counters that have counted something."""
    return list(_counters())


def counter_value(name: str) -> int | None:
    """Return the value of a counter; None if it has counted nothing."""
    return _counters().get(name)


def clear_counters() -> None:
    """Set all counters to 0; those of `ftm_lazy.metrics` stay."""
    _cleared.clear()
    _cleared.update(_all())


def metric_names() -> list[str]:
    """Return the metrics that have samples."""
    return sorted(_C._metric_names())


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """Return a metric: the number of its samples, their sum, and the last of them as (time in s, value);
    None if it has none."""
    return _C._metric_data(name)


def clear_metrics() -> None:
    """Forget all samples."""
    _C._reset_metrics()


def clear_all() -> None:
    """`clear_metrics` and `clear_counters`."""
    clear_metrics()
    clear_counters()


def metrics_report() -> str:
    """All metrics and counters as text, in torch_xla's format."""
    return _text(metric_names(), counter_names())


def short_metrics_report(
    counter_names: list[str] | None = None, metric_names: list[str] | None = None
) -> str:
    """As `metrics_report`, of the named ones, or those that matter most; operations that fell back
    are always named."""
    values = _counters()
    counters = counter_names or ["CachedCompile", "MarkStep", "DynamoSyncInputExecuteTime"]
    metrics = metric_names or [
        "CompileTime",
        "ExecuteTime",
        "ExecuteReplicatedTime",
        "TransferToDeviceTime",
        "TransferFromDeviceTime",
    ]
    wanted = [name for name in values if name in counters or name.startswith("aten::")]
    return _text([name for name in metrics if name in _C._metric_names()], wanted)


def _text(metrics: list[str], counters: list[str]) -> str:
    values = _counters()
    return _C._metric_report(metrics) + "".join(
        f"Counter: {name}\n  Value: {values[name]}\n" for name in counters
    )


def executed_fallback_ops() -> list[str]:
    """Return the operations that ran on the CPU."""
    return [name for name in _counters() if name.startswith("aten::")]
