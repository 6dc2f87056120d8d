"""Advice: what costs time in a profile, where, and what to do about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ftm_lazy.profiler.events import Events, HostEvent
from ftm_lazy.profiler.steps import Step


@dataclass(frozen=True)
class Advice:
    """One finding.

    Attributes:
        what: What happens.
        line: The Python line, or "".
        remedy: What to do.
        cost: Nanoseconds that it costs at most.
    """

    what: str
    line: str
    remedy: str
    cost: int

    def __str__(self) -> str:
        place = f" at {self.line}" if self.line else ""
        return f"{self.what}{place} ({self.cost / 1e6:.1f} ms). {self.remedy}"


_MOST_COMPILES = 3
_MANY_PROGRAMS = 8
_FEW_CALLS = 20
_IDLE = 0.3
_COPIES = 0.25  # of the steps' time
_WORTH_NANOSECONDS = 1_000_000
_WORTH_SHARE = 0.005  # of the steps' time


def advice_of(events: Events, steps: list[Step]) -> list[Advice]:
    """Return the findings, the costliest first."""
    found = [each for rule in _RULES for each in rule(events, steps)]
    return sorted(found, key=lambda each: -each.cost)


def _by_line(events: Events, *kinds: str) -> dict[str, list[HostEvent]]:
    lines: dict[str, list[HostEvent]] = defaultdict(list)
    for event in events.host:
        if event.kind in kinds:
            lines[event.line].append(event)
    return lines


def _reads(events: Events, steps: list[Step]) -> Iterator[Advice]:
    """Find lines that read a value of the device, or wait for it, in every step."""
    worth = _WORTH_SHARE * sum(step.wall for step in steps)
    for line, reads in _by_line(events, "wait", "copy_to_host").items():
        # A read is a copy to the host; a wait before it, only if the value was not ready yet.
        counts = Counter(event.kind for event in reads)
        often = max(counts.values()) / len(steps)
        cost = sum(event.time for event in reads)
        # The last step's read may be after the profile; one wait is also the profile's own end.
        if not line or max(counts.values()) < max(2, len(steps) - 1) or cost < worth:
            continue
        if counts["copy_to_host"]:
            what = f"A value is read {often:.1f} times a step"
            remedy = (
                "Python waits there until the device has computed it. Keep it as a tensor "
                "(total += loss.detach()) and read it every 100 steps."
            )
        else:
            what = f"Python waits for the device {often:.1f} times a step"
            remedy = "Leave the synchronization out: a read of a value waits by itself."
        yield Advice(what, line, remedy, cost)


def _compiles(events: Events, steps: list[Step]) -> Iterator[Advice]:
    """Find lines whose programs are compiled again and again."""
    del steps
    for line, compiles in _by_line(events, "compile").items():
        fresh = [event for event in compiles if event.name.startswith("compiled")]
        if len(fresh) > _MOST_COMPILES:
            causes = Counter(event.name.partition(": ")[2] for event in fresh).most_common(2)
            yield Advice(
                f"{len(fresh)} programs were compiled "
                f"({'; '.join(cause for cause, _ in causes if cause)})",
                line,
                "Pad to a few sizes, or set FTM_DEBUG=recompile to see what differs.",
                sum(event.time for event in fresh),
            )


def _fallbacks(events: Events, steps: list[Step]) -> Iterator[Advice]:
    """Find operations that ran on the CPU."""
    del steps
    by_op: dict[tuple[str, str], list[HostEvent]] = defaultdict(list)
    for event in events.host:
        if event.kind == "fallback":
            by_op[event.name, event.line].append(event)
    for (op, line), calls in by_op.items():
        yield Advice(
            f"{op} ran {len(calls)} times on the CPU",
            line,
            "It is not compiled for these dtypes: it cuts the program and copies its operands. "
            "Use another operation, or another dtype.",
            sum(event.time for event in calls),
        )


def _small_programs(events: Events, steps: list[Step]) -> Iterator[Advice]:
    """Find steps that are cut into many small programs."""
    small = [run for run in events.runs if run.calls < _FEW_CALLS]
    if len(small) > _MANY_PROGRAMS * len(steps):
        (line, count), *_ = Counter(run.line for run in small).most_common(1)
        yield Advice(
            f"{len(small) / len(steps):.0f} programs of less than {_FEW_CALLS} operations a step "
            f"({count} of them are launched by one line)",
            line,
            "Each read of a value ends a program. Read once at the end of the step.",
            sum(run.end - run.begin for run in small),
        )


def _float64(events: Events, steps: list[Step]) -> Iterator[Advice]:
    """Find kernels that compute in float64 in a program that mostly uses another type."""
    del steps
    double = [kernel for kernel in events.kernels if kernel.shape.startswith("f64")]
    if double and len(double) < len(events.kernels) / 2:
        kernel = max(double, key=lambda each: each.time)
        yield Advice(
            f"{len(double)} kernels compute in float64 ({kernel.name})",
            kernel.line,
            "NumPy's arrays are float64: convert them with .float() before they meet the model.",
            sum(each.time for each in double),
        )


def _copies(events: Events, steps: list[Step]) -> Iterator[Advice]:
    """Find lines that copy to the device several times a step, or for much of its time."""
    much = _COPIES * sum(step.wall for step in steps)
    for line, copies in _by_line(events, "copy_to_device").items():
        cost = sum(event.time for event in copies)
        is_often = len(copies) > len(steps)
        if line and len(steps) > 1 and (is_often or cost > much) and cost > _WORTH_NANOSECONDS:
            yield Advice(
                f"{len(copies) / len(steps):.1f} copies to the device a step",
                line,
                "Create the tensor on the device (device='ftm'), or copy it once before the loop.",
                cost,
            )


def _idle_cores(events: Events, steps: list[Step]) -> Iterator[Advice]:
    """Find kernels that leave cores idle."""
    del steps
    cores = events.core_count
    if cores < 2:
        return
    idle: dict[tuple[str, str], int] = defaultdict(int)
    total = sum(kernel.time for kernel in events.kernels)
    for kernel in events.kernels:
        idle[kernel.name, kernel.line] += max(0, kernel.elapsed - kernel.busy // cores)
    for (name, line), lost in sorted(idle.items(), key=lambda item: -item[1])[:1]:
        if lost > _IDLE * total:
            yield Advice(
                f"{name} leaves {cores - 1} of {cores} cores idle",
                line,
                "It is too small to divide: use a larger batch, or combine it with others.",
                lost,
            )


_RULES: tuple[Callable[[Events, list[Step]], Iterator[Advice]], ...] = (
    _reads,
    _compiles,
    _fallbacks,
    _small_programs,
    _float64,
    _copies,
    _idle_cores,
)
