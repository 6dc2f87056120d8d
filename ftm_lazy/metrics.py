"""What the device has done so far: counters, and a report that explains the compiles.

| counter | counts |
|---|---|
| ops_traced | operations recorded |
| syncs | cuts of the trace |
| unrolled | cuts of loops whose number of iterations varies, and of equal layers: each becomes runs of a few programs |
| executions | programs run |
| compiles | traces for which a program was compiled; where a trace is cut into pieces, once for all of them |
| pieces | programs that were compiled for these traces: as many as `compiles` where none of them was cut |
| recompiles | compiles of a program that an earlier one nearly fits; `report` says what differs |
| cache_hits_memory | programs found in this process |
| cache_hits_disk | programs found in the cache directory |
| general_programs | of the pieces, programs for many sizes |
| first_sight_programs | of these, the programs that were compiled before a second size had come |
| instances | programs for other sizes, made from those |
| compile_failures | programs that did not compile |
| op_by_op_runs | runs of such programs, operation by operation on the CPU |
| fault_replays | runs of programs that the machine stopped, operation by operation on the CPU, for eager's exception |
| cpu_fills | tensors that the CPU filled, since their dtype or number is none of the machine's |
| places_on_cpu | masks and sparse indices whose places the CPU found, since results are as large as these are many |
| scales_on_cpu | scales of dynamic quantization, which are numbers of the process and chosen there |
| conditions_on_cpu | conditions that the CPU answered: of whole numbers from there and constants, and small ones in a loop of decisions |
| fallback::<op> | operations that ran on the CPU, by name |
| sync::<op> | operations that had to see what the device computes, to know how large their results are (masks), by name |
"""

from __future__ import annotations

from ftm_lazy import _C
from ftm_lazy.compile import compile_client

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
"""The counters that are always there, beside one ``fallback::<op>`` for each operation that fell
back, and one ``sync::<op>`` for each that waited."""


_RECOMPILES = 5  # that a report shows
_LINE = 200  # characters of each


def counters() -> dict[str, int]:
    """The counters of this process since its start, or since `reset`."""
    return dict.fromkeys(NAMES, 0) | _C._counters()


def report() -> str:
    """The counters as a table, why programs were compiled and in what time, and what differed in
    the last recompiles."""
    values = counters()
    width = max(map(len, values))
    lines = [f"{name:<{width}}  {value:>12,}" for name, value in values.items()]
    causes = compile_client.bridge().accounts.causes()
    if causes:
        lines += ["", f"{'compiled because':<18}  {'traces':>8}  {'pieces':>8}  {'seconds':>8}"]
        lines += [
            f"{cause:<18}  {traces:>8,}  {pieces:>8,}  {seconds:>8.2f}"
            for cause, (traces, pieces, seconds) in causes.items()
        ]
    recompiles = compile_client.bridge().accounts.recompiles()
    if recompiles:
        shown = [
            text if len(text) <= _LINE else text[: _LINE - 3] + "..."
            for text in recompiles[-_RECOMPILES:]
        ]
        earlier = values["recompiles"] - len(shown)
        lines += ["", "recompiles, the last ones:" if earlier else "recompiles:"]
        lines += [f"  {text}" for text in shown]
        if earlier:
            lines.append(f"  and {earlier} earlier ones (FTM_DEBUG=recompile shows all)")
    return "\n".join(lines)


def reset() -> None:
    """Sets all counters to 0 and forgets the explanations of recompiles."""
    _C._reset_counters()
    compile_client.bridge().accounts.forget()
