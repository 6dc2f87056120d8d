"""Counters of the device's work, and a report that explains the compiles.

The counters, in the order of `NAMES`:

- ops_traced: operations recorded.
- syncs: cuts of the trace.
- unrolled: cuts at the iterations of a loop or at equal layers; the trace becomes several runs of
  a few programs.
- executions: programs run.
- compiles: traces that needed compiling. A trace that is split into pieces counts once.
- pieces: programs compiled for these traces; equals `compiles` if no trace was split.
- recompiles: compiles of traces that nearly match an earlier one. `report` shows what differs.
- cache_hits_memory, cache_hits_disk: programs found in this process or in the cache directory.
- general_programs: dynamic-shape programs among `pieces`.
- first_sight_programs: dynamic-shape programs compiled before a second size was seen.
- instances: specializations of dynamic-shape programs for further sizes, made without compiling.
- compile_failures: programs that did not compile.
- op_by_op_runs: runs of programs that did not compile, one operation at a time on the CPU.
- fault_replays: runs repeated on the CPU after a machine fault, to raise eager PyTorch's exception.
- cpu_fills: tensors filled by the CPU because the machine lacks their dtype or the value.
- places_on_cpu: masks and sparse indices whose positions the CPU computed, because the number of
  positions is the result's size. Also such sizes themselves, of `unique` and `bincount`.
- scales_on_cpu: scales of dynamic quantization, which are Python numbers and computed on the CPU.
- conditions_on_cpu: conditions evaluated on the CPU: on integers that are in memory and constants,
  short ones, and small ones in a loop. Also numbers that follow from single numbers from the CPU.
- fallback::<op>: calls of an operation that ran on the CPU because it is not compiled.
- sync::<op>: calls of an operation that waited for the device because its result's size depends on
  the data (masks).
"""

from __future__ import annotations

from ftm_lazy import _C
from ftm_lazy.compile import compile_client
from ftm_lazy.notebook_display import NotebookText
from ftm_lazy.profiler.last_profile import last_advice

__all__ = ["NAMES", "counters", "report", "reset"]

NAMES = (
    "ops_traced",
    "syncs",
    "unrolled",
    "executions",
    "compiles",
    "pieces",
    "recompiles",
    "cache_hits_memory",
    "cache_hits_disk",
    "general_programs",
    "first_sight_programs",
    "instances",
    "compile_failures",
    "op_by_op_runs",
    "fault_replays",
    "cpu_fills",
    "places_on_cpu",
    "scales_on_cpu",
    "conditions_on_cpu",
)
"""The counters that are always present. ``fallback::<op>`` and ``sync::<op>`` appear on demand."""


_RECOMPILES_SHOWN = 5
_LINE_LENGTH = 200  # characters


def counters() -> dict[str, int]:
    """Return the counters of this process.

    Returns:
        Counter name to its value since the process started or since `reset`. All of `NAMES` are
        present; ``fallback::<op>`` and ``sync::<op>`` only if they occurred.

    Example:
        >>> ftm_lazy.metrics.counters()["compiles"]
        3
    """
    return dict.fromkeys(NAMES, 0) | _C._counters()


def report() -> str:
    """Format the counters, the causes of compiles with their times, and the last recompiles.

    After a `ftm_lazy.profile`, the report ends with its three most important findings.

    Returns:
        Text of several lines to print; a notebook shows it as it is.
    """
    values = counters()
    width = max(map(len, values))
    lines = [f"{name:<{width}}  {value:>12,}" for name, value in values.items()]
    causes = compile_client.client().stats.causes()
    if causes:
        lines += ["", f"{'compiled because':<18}  {'traces':>8}  {'pieces':>8}  {'seconds':>8}"]
        lines += [
            f"{cause:<18}  {traces:>8,}  {pieces:>8,}  {seconds:>8.2f}"
            for cause, (traces, pieces, seconds) in causes.items()
        ]
    recompiles = compile_client.client().stats.recompiles()
    if recompiles:
        shown = [
            text if len(text) <= _LINE_LENGTH else text[: _LINE_LENGTH - 3] + "..."
            for text in recompiles[-_RECOMPILES_SHOWN:]
        ]
        earlier = values["recompiles"] - len(shown)
        lines += ["", "recompiles, the last ones:" if earlier else "recompiles:"]
        lines += [f"  {text}" for text in shown]
        if earlier:
            lines.append(f"  and {earlier} earlier ones (FTM_DEBUG=recompile shows all)")
    advice = last_advice()
    if advice:
        lines += ["", "advice of the last profile:", *(f"  {each}" for each in advice)]
    return NotebookText("\n".join(lines))


def reset() -> None:
    """Set all counters to 0 and discard the explanations of recompiles."""
    _C._reset_counters()
    compile_client.client().stats.forget()
