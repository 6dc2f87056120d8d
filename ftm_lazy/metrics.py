"""What the device has done so far: counters, and a report that explains the recompiles.

| counter | counts |
|---|---|
| ops_traced | operations recorded |
| syncs | cuts of the trace |
| executions | programs run |
| compiles | programs compiled, here or by another process while this one waited |
| recompiles | compiles of a program that an earlier one nearly fits; `report` says what differs |
| cache_hits_memory | programs found in this process |
| cache_hits_disk | programs found in the cache directory |
| compile_failures | programs that did not compile and ran operation by operation on the CPU |
| fallback::<op> | operations that ran on the CPU, by name |
"""

from __future__ import annotations

from ftm_lazy import _C, compiler

__all__ = ["NAMES", "counters", "report", "reset"]

NAMES = (
    "ops_traced",
    "syncs",
    "executions",
    "compiles",
    "recompiles",
    "cache_hits_memory",
    "cache_hits_disk",
    "compile_failures",
)
"""The counters that are always there, beside one ``fallback::<op>`` for each operation that fell back."""


def counters() -> dict[str, int]:
    """The counters of this process since its start, or since `reset`."""
    return dict.fromkeys(NAMES, 0) | _C._counters()


def report() -> str:
    """The counters as a table, then each recompile and what differs from the nearest earlier trace."""
    values = counters()
    width = max(map(len, values))
    lines = [f"{name:<{width}}  {value:>12,}" for name, value in values.items()]
    recompiles = compiler.bridge().recompiles()
    if recompiles:
        lines += ["", "recompiles:"]
        lines += [f"  {text}" for text in recompiles]
    return "\n".join(lines)


def reset() -> None:
    """Sets all counters to 0 and forgets the explanations of recompiles."""
    _C._reset_counters()
    compiler.bridge().forget_recompiles()
