"""Computes two timelines per core, of the core and of its DMA engine, from the events of a walk.

A transfer starts when the instruction is issued and the engine is free. A wait advances the core to
the end of the slot's transfers. So overlap results from the program's waits; it is not assumed.
Repeated events are executed until the state of the two timelines repeats, and then multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ftm_backend.assembler.image_layout import NONE
from ftm_backend.perf_model.events import (
    SCALAR,
    CollectiveEvent,
    CollectiveWaitEvent,
    ComputeEvent,
    DmaEvent,
    EnterEvent,
    Event,
    RepeatEvent,
    Slot,
    WaitEvent,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import MachineParameters


@dataclass(slots=True)
class TimelineTotals:
    """Sums along a timeline: cycles of each kind, bytes and operations."""

    cycles: float = 0.0
    compute: float = 0.0
    dma: float = 0.0
    scalar: float = 0.0
    """Share of ``compute`` for scalar work and for issuing tile instructions."""
    gsm_bound: float = 0.0
    """Share of ``dma`` in which GSM is the bottleneck."""
    ddr_bytes: int = 0
    gsm_bytes: int = 0
    flops: int = 0
    ideal: float = 0.0
    calls: int = 0

    def add(self, other: TimelineTotals, times: float = 1) -> None:
        """Add ``other``, ``times`` times."""
        self.cycles += other.cycles * times
        self.compute += other.compute * times
        self.dma += other.dma * times
        self.scalar += other.scalar * times
        self.gsm_bound += other.gsm_bound * times
        self.ddr_bytes += round(other.ddr_bytes * times)
        self.gsm_bytes += round(other.gsm_bytes * times)
        self.flops += round(other.flops * times)
        self.ideal += other.ideal * times
        self.calls += round(other.calls * times)

    def minus(self, other: TimelineTotals) -> TimelineTotals:
        """Return the difference."""
        result = TimelineTotals()
        result.add(self)
        result.add(other, -1)
        return result

    def copy(self) -> TimelineTotals:
        """Return a copy."""
        return self.minus(TimelineTotals())


class TimelineSpan(NamedTuple):
    """An activity on the core or its DMA engine; times are cycles since the program's start."""

    lane: str
    what: str
    start: float
    end: float
    function: int
    core: int = 0


class TimelineRecorder:
    """Records the first ``most`` spans of one core."""

    def __init__(self, most: int, core: int = 0) -> None:
        self.core = core
        self.spans: list[TimelineSpan] = []
        self.most, self.origin, self.function = most, 0.0, NONE
        self._last: dict[str, int] = {}

    def note(self, lane: str, what: str, start: float, end: float) -> None:
        """Record a span, or extend the lane's last one; times are relative to the phase."""
        if end <= start or len(self.spans) >= self.most:
            return
        start, end = start + self.origin, end + self.origin
        at = self._last.get(lane, -1)
        if at >= 0 and what == self.spans[at].what == SCALAR and self.spans[at].end == start:
            self.spans[at] = self.spans[at]._replace(end=end)
            return
        self._last[lane] = len(self.spans)
        self.spans.append(TimelineSpan(lane, what, start, end, self.function, self.core))


@dataclass(slots=True)
class Timeline:
    """Timelines of one core between two barriers; ``ddr`` and ``gsm`` are bytes per cycle."""

    machine: MachineParameters
    ddr: float
    gsm: float
    clock: float = 0.0
    engine: float = 0.0
    slots: dict[Slot, float] = field(default_factory=dict)
    totals: TimelineTotals = field(default_factory=TimelineTotals)
    functions: dict[int, TimelineTotals] = field(default_factory=dict)
    recorder: TimelineRecorder | None = None
    collectives: list[tuple[float, CollectiveEvent | CollectiveWaitEvent]] = field(
        default_factory=list
    )
    """Starts of collectives and waits for them, with their times; they take no time here."""
    first_transfers: dict[int, float] = field(default_factory=dict)
    """Buffer -> the time at which its first transfer starts."""

    def run(self, events: Iterable[Event], stack: list[int]) -> None:
        """Execute a phase; ``stack`` has the active functions, and persists across phases."""
        start = self.totals.copy()
        for event in events:
            if type(event) is EnterEvent:
                start = self._account(stack, start)
                if event.function == NONE:
                    stack.pop()
                else:
                    stack.append(event.function)
                    self.functions.setdefault(event.function, TimelineTotals()).calls += 1
                if self.recorder is not None and stack:
                    self.recorder.function = stack[-1]
            else:
                self._step(event)
        self._wait_all()
        self._account(stack, start)

    def _account(self, stack: list[int], start: TimelineTotals) -> TimelineTotals:
        self.totals.cycles = self.clock
        if stack:
            self.functions.setdefault(stack[-1], TimelineTotals()).add(self.totals.minus(start))
        return self.totals.copy()

    def _step(self, event: Event) -> None:
        if isinstance(event, ComputeEvent):
            if self.recorder is not None:
                self.recorder.note("core", event.what, self.clock, self.clock + event.cycles)
            self.clock += event.cycles
            if event.what == SCALAR:
                self.totals.scalar += event.cycles
            self.totals.compute += event.cycles
            self.totals.flops += event.flops
            self.totals.ideal += event.ideal
        elif isinstance(event, DmaEvent):
            self._transfer(event)
        elif isinstance(event, WaitEvent):
            if event.slot is None:
                self._wait_all()
            else:
                self._wait_until(self.slots.get(event.slot, 0.0))
        elif isinstance(event, RepeatEvent):
            self._repeat(event)
        elif isinstance(event, CollectiveEvent | CollectiveWaitEvent):
            self.collectives.append((self.clock, event))

    def _wait_all(self) -> None:
        self._wait_until(self.engine)

    def _wait_until(self, time: float) -> None:
        if time > self.clock:
            if self.recorder is not None:
                self.recorder.note("core", "wait", self.clock, time)
            self.clock = time

    def _transfer(self, event: DmaEvent) -> None:
        machine, moved = self.machine, event.transfer
        cycles = cost_rules.transfer_cycles(
            machine, moved.ddr_bytes / self.ddr, moved.gsm_bytes / self.gsm, moved.element_cycles
        )
        cycles += (moved.launches - 1) * machine.dma_latency
        start = max(self.clock, self.engine)
        self.first_transfers.setdefault(event.buffer, start)
        self.engine = end = start + cycles
        if self.recorder is not None:
            self.recorder.note("DMA", event.what, start, end)
        for slot in event.slots:
            self.slots[slot] = end
        self.totals.dma += cycles
        if moved.gsm_bytes / self.gsm > max(moved.ddr_bytes / self.ddr, moved.element_cycles):
            self.totals.gsm_bound += cycles
        self.totals.ddr_bytes += moved.ddr_bytes
        self.totals.gsm_bytes += moved.gsm_bytes
        if not machine.dma_overlaps:
            self.clock = end

    def _repeat(self, event: RepeatEvent) -> None:
        before = None
        done = 0
        while done < event.count:
            clock, totals = self.clock, self.totals.copy()
            for inner in event.events:
                self._step(inner)
            done += 1
            state = self._relative_state()
            if state == before:
                left = event.count - done
                shift = (self.clock - clock) * left
                self.totals.add(self.totals.minus(totals), left)
                if self.recorder is not None:
                    for lane in ("core", "DMA"):
                        self.recorder.note(
                            lane, f"the same {left} times", self.clock, self.clock + shift
                        )
                self.slots = {slot: end + shift for slot, end in self.slots.items()}
                self.clock += shift
                self.engine += shift
                return
            before = state

    def _relative_state(self) -> tuple[object, ...]:
        """Return everything from the past that affects the future, relative to the clock."""
        ends = tuple(
            sorted(
                (slot, round(end - self.clock, 3))
                for slot, end in self.slots.items()
                if end > self.clock
            )
        )
        return round(max(self.engine - self.clock, 0.0), 3), ends


def traffic(events: Iterable[Event]) -> tuple[int, int]:
    """Return the DDR and GSM bytes of a phase."""
    ddr = gsm = 0
    for event in events:
        if type(event) is DmaEvent:
            ddr += event.transfer.ddr_bytes
            gsm += event.transfer.gsm_bytes
        elif type(event) is RepeatEvent:
            inner = traffic(event.events)
            ddr += inner[0] * event.count
            gsm += inner[1] * event.count
    return ddr, gsm


def touched(
    events: Iterable[Event],
    stack: list[int],
    found: dict[tuple[int, int, bool], int],
    times: int = 1,
) -> None:
    """Add the bytes that each function moves per buffer to ``found``.

    Keys are (function, buffer, whether it is written). ``stack`` has the active functions, and is
    updated.
    """
    for event in events:
        if type(event) is DmaEvent:
            key = stack[-1], event.buffer, event.what in ("DST", "DSC")
            found[key] = found.get(key, 0) + event.transfer.bytes * times
        elif type(event) is RepeatEvent:
            touched(event.events, stack, found, times * event.count)
        elif type(event) is EnterEvent:
            if event.function == NONE:
                stack.pop()
            else:
                stack.append(event.function)
