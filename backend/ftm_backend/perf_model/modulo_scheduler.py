"""Modulo scheduling of loops over vectors, with register pressure.

Iterations of a map are independent, so the *initiation interval* is the time that the busiest unit
needs, rounded up to whole cycles per unrolled group of iterations. Operations are placed from the
last to the first, each as late as its readers and the units allow, which keeps live ranges short. A
value occupies a register from its write to its last read. Iterations overlap, so a value that lives
longer than the interval occupies several registers. Values that do not fit are *spilled*: constants
are reloaded in each iteration, others stored and reloaded, and these operations use the ports to
the scratchpad.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import ceil

from ftm_backend.target.presets import MachineParameters

MEMORY = "VLDST"
_UNROLLED = 32
"""Loops of at most this many operations are unrolled; longer ones lose little by rounding up."""

_SLOWER = (1.05, 1.1, 1.2, 1.35)
"""Larger intervals that are tried, relative to the least one: they need fewer registers."""


@dataclass(frozen=True, slots=True)
class ScheduledOp:
    """An operation on a vector; the value that it computes has the operation's number.

    Attributes:
        slots: (unit, number of times) that it occupies.
        latency: Cycles from issue to result.
        sources: Numbers of values; invariant number i is -1 - i.
        width: Registers of the result; 0 if it has none.
    """

    slots: tuple[tuple[str, int], ...]
    latency: int
    sources: tuple[int, ...] = ()
    width: int = 1

    @property
    def loads(self) -> bool:
        """Whether it loads from the scratchpad."""
        return self.width > 0 and bool(self.slots) and all(unit == MEMORY for unit, _ in self.slots)


@dataclass(frozen=True, slots=True)
class PipelinedLoop:
    """One iteration, operations after their sources, and the registers of each invariant."""

    steps: tuple[ScheduledOp, ...]
    invariants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuloSchedule:
    """A schedule.

    Attributes:
        interval: Cycles from one iteration to the next.
        registers: Greatest number of registers in use.
        spilled: Number of values that are not kept in registers.
    """

    interval: float
    registers: int
    spilled: int


def fastest(machine: MachineParameters, steps: Iterable[ScheduledOp]) -> float:
    """Return the cycles that the busiest unit needs for one iteration."""
    used: dict[str, int] = {}
    for step in steps:
        for unit, times in step.slots:
            used[unit] = used.get(unit, 0) + times
    first = used.get("VMAC1", 0)
    pipes = (used.get("VMAC", 0) + first) / machine.fma_units
    ports = used.get(MEMORY, 0) / machine.vector_memory_ports
    return max(pipes, ports, float(first), float(used.get("VIEU", 0)))


@lru_cache(maxsize=4096)
def schedule(machine: MachineParameters, loop: PipelinedLoop) -> ModuloSchedule:
    """Find the shortest interval, of at least one cycle, at which live values fit the registers."""
    least = max(1.0, fastest(machine, loop.steps))
    best = _fitted(machine, loop, ceil(least))
    if len(loop.steps) <= _UNROLLED:
        for turns in (2, 3):
            if best.interval > least:
                found = _fitted(
                    machine,
                    PipelinedLoop(_unrolled(loop.steps, turns), loop.invariants),
                    ceil(turns * least),
                )
                best = min(
                    best,
                    ModuloSchedule(found.interval / turns, found.registers, found.spilled),
                    key=lambda each: each.interval,
                )
    for slower in _SLOWER:
        if best.interval > ceil(slower * least):
            best = min(
                best, _fitted(machine, loop, ceil(slower * least)), key=lambda each: each.interval
            )
    return best


def _unrolled(steps: Sequence[ScheduledOp], turns: int) -> tuple[ScheduledOp, ...]:
    """Concatenate the operations of several iterations."""
    return tuple(
        ScheduledOp(
            step.slots,
            step.latency,
            tuple(s if s < 0 else s + turn * len(steps) for s in step.sources),
            step.width,
        )
        for turn in range(turns)
        for step in steps
    )


def _fitted(machine: MachineParameters, loop: PipelinedLoop, least: int) -> ModuloSchedule:
    """Schedule at the first feasible interval from ``least``, with as few spills as it needs."""
    spilled = 0
    while True:
        interval, times = _placed(
            machine, loop.steps, max(least, ceil(fastest(machine, loop.steps)))
        )
        needed, lives = _registers(loop, interval, times)
        if needed <= machine.vector_registers:
            return ModuloSchedule(interval, needed, spilled)
        chosen = _to_spill(machine, loop, interval, lives, needed - machine.vector_registers)
        if not chosen:
            # No long live ranges: fewer operations in flight need proportionally fewer registers.
            return ModuloSchedule(
                interval * needed / machine.vector_registers, machine.vector_registers, spilled
            )
        spilled += len(chosen)
        loop = _without(machine, loop, chosen)


def _placed(
    machine: MachineParameters, steps: Sequence[ScheduledOp], least: int
) -> tuple[int, list[int]]:
    """Find the first interval from ``least`` at which every operation has a place.

    Returns:
        The interval, and the issue cycle of each operation, counted up to 0.
    """
    for interval in count(least):
        times = _place(machine, steps, interval)
        if times is not None:
            return interval, times
    raise AssertionError("counting ended")


def _place(
    machine: MachineParameters, steps: Sequence[ScheduledOp], interval: int
) -> list[int] | None:
    free = _Units(machine, interval)
    due = [0] * len(steps)
    times = [0] * len(steps)
    for number in range(len(steps) - 1, -1, -1):
        step = steps[number]
        issued = wanted = due[number] - step.latency
        for unit, times_taken in step.slots:
            for _ in range(times_taken):
                cycle = free.take(unit, wanted)
                if cycle is None:
                    return None
                issued = min(issued, cycle)
        times[number] = issued
        for source in step.sources:
            if source >= 0:
                due[source] = min(due[source], issued)
    return times


class _Units:
    """Reservation table: which units are in use in which cycle of the interval."""

    def __init__(self, machine: MachineParameters, interval: int) -> None:
        self._interval = interval
        self._pipes, self._ports = machine.fma_units, machine.vector_memory_ports
        self._taken = {unit: [0] * interval for unit in ("VMAC", "VMAC1", "VIEU", MEMORY)}

    def take(self, unit: str, latest: int) -> int | None:
        """Reserve the unit in the last free cycle up to ``latest``; return that cycle."""
        rows = self._taken[unit]
        pipes = self._taken["VMAC"]
        most = {"VMAC": self._pipes, MEMORY: self._ports}.get(unit, 1)
        for cycle in range(latest, latest - self._interval, -1):
            row = cycle % self._interval
            if rows[row] < most and (unit != "VMAC1" or pipes[row] < self._pipes):
                rows[row] += 1
                if unit == "VMAC1":
                    pipes[row] += 1  # VMAC1 is the first of the pipes
                return cycle
        return None


def _registers(loop: PipelinedLoop, interval: int, times: Sequence[int]) -> tuple[int, list[int]]:
    """Return the registers in use in the fullest cycle, and the live range of each value."""
    ends = [0] * len(loop.steps)
    for step, issued in zip(loop.steps, times, strict=True):
        for source in step.sources:
            if source >= 0:
                written = times[source] + loop.steps[source].latency
                ends[source] = max(ends[source], issued - written + 1)
    whole, change = sum(loop.invariants), [0] * (interval + 1)
    for step, issued, cycles in zip(loop.steps, times, ends, strict=True):
        if cycles and step.width:
            turns, rest = divmod(cycles, interval)
            whole += turns * step.width
            first = (issued + step.latency) % interval
            change[first] += step.width
            if first + rest < interval:
                change[first + rest] -= step.width
            else:
                change[0] += step.width
                change[first + rest - interval] -= step.width
    most = now = 0
    for step_change in change[:-1]:
        now += step_change
        most = max(most, now)
    return whole + most, ends


def _to_spill(
    machine: MachineParameters,
    loop: PipelinedLoop,
    interval: int,
    lives: Sequence[int],
    excess: int,
) -> set[int]:
    """Choose values to spill until ``excess`` registers are free, cheapest first."""
    readers: dict[int, list[ScheduledOp]] = {}
    for step in loop.steps:
        for source in set(step.sources):
            readers.setdefault(source, []).append(step)
    found: list[tuple[float, float, int]] = []
    for index, width in enumerate(loop.invariants):
        if width and -1 - index in readers:
            found.append((len(readers[-1 - index]), width, -1 - index))
    round_trip = machine.vector_load_latency + machine.vector_store_latency
    for number, (step, cycles) in enumerate(zip(loop.steps, lives, strict=True)):
        if (
            step.width
            and cycles > round_trip
            and not (step.loads and len(readers[number]) == 1)
            and any(r.width for r in readers[number])
        ):
            gain = step.width * cycles / interval
            found.append(
                ((len(readers[number]) + (not step.loads)) * step.width / gain, gain, number)
            )
    chosen, freed = set(), 0.0
    for _, gain, number in sorted(found):
        if freed >= excess:
            break
        chosen.add(number)
        freed += gain
    return chosen


def _without(machine: MachineParameters, loop: PipelinedLoop, chosen: set[int]) -> PipelinedLoop:
    """Return the iteration with the chosen values loaded before each use."""
    steps: list[ScheduledOp] = []
    at: dict[int, int] = {}
    for number, step in enumerate(loop.steps):
        if number in chosen and step.loads:
            continue
        here = {source: source if source < 0 else at.get(source, source) for source in step.sources}
        for source in chosen.intersection(here):
            width = loop.steps[source].width if source >= 0 else loop.invariants[-1 - source]
            steps.append(
                ScheduledOp(
                    ((MEMORY, width),),
                    machine.vector_load_latency,
                    (at[source],) if source in at else (),
                    width,
                )
            )
            here[source] = len(steps) - 1
        steps.append(
            ScheduledOp(
                step.slots, step.latency, tuple(here[source] for source in step.sources), step.width
            )
        )
        at[number] = len(steps) - 1
        if number in chosen:
            steps.append(
                ScheduledOp(((MEMORY, step.width),), machine.vector_store_latency, (at[number],), 0)
            )
            at[number] = len(steps) - 1  # reloads wait for the store
    kept = tuple(
        0 if -1 - index in chosen else width for index, width in enumerate(loop.invariants)
    )
    return PipelinedLoop(tuple(steps), kept)
