"""Two timelines for each core, one for the core and one for its DMA engine, from a walk's events.

A transfer starts when the instruction is issued and the engine is free; a wait moves the core to the end of
the slot's transfers.  Overlap is what the program's waits leave, not an assumption.  Repeated events are run
until the relations of the two timelines repeat, and then multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ftm_backend.isa.layout import NONE
from ftm_backend.machine import rules
from ftm_backend.machine.cycles_cost import Transfer
from ftm_backend.machine.cycles_events import Compute, Dma, Enter, Event, Repeat, Slot, Wait
from ftm_backend.machine.presets import MachineParameters


@dataclass(slots=True)
class Totals:
    """What accumulates along a timeline: cycles of each kind, bytes and operations."""

    cycles: float = 0.0
    compute: float = 0.0
    dma: float = 0.0
    ddr_bytes: int = 0
    flops: int = 0
    ideal: float = 0.0
    calls: int = 0

    def add(self, other: Totals, times: float = 1) -> None:
        """Adds ``times`` of ``other``."""
        self.cycles += other.cycles * times
        self.compute += other.compute * times
        self.dma += other.dma * times
        self.ddr_bytes += round(other.ddr_bytes * times)
        self.flops += round(other.flops * times)
        self.ideal += other.ideal * times
        self.calls += round(other.calls * times)

    def minus(self, other: Totals) -> Totals:
        """The difference."""
        result = Totals()
        result.add(self)
        result.add(other, -1)
        return result

    def copy(self) -> Totals:
        """A copy."""
        return self.minus(Totals())


@dataclass(slots=True)
class Timeline:
    """One core between two barriers; ``ddr`` and ``gsm`` are its shares, in bytes per cycle."""

    machine: MachineParameters
    ddr: float
    gsm: float
    clock: float = 0.0
    engine: float = 0.0
    slots: dict[Slot, float] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    functions: dict[int, Totals] = field(default_factory=dict)

    def run(self, events: Iterable[Event], stack: list[int]) -> None:
        """Runs a phase; ``stack`` holds the functions being executed, and is kept across phases."""
        start = self.totals.copy()
        for event in events:
            if type(event) is Enter:
                start = self._account(stack, start)
                if event.function == NONE:
                    stack.pop()
                else:
                    stack.append(event.function)
                    self.functions.setdefault(event.function, Totals()).calls += 1
            else:
                self._step(event)
        self._wait_all()
        self._account(stack, start)

    def _account(self, stack: list[int], start: Totals) -> Totals:
        self.totals.cycles = self.clock
        if stack:
            self.functions.setdefault(stack[-1], Totals()).add(self.totals.minus(start))
        return self.totals.copy()

    def _step(self, event: Event) -> None:
        kind = type(event)
        if kind is Compute:
            self.clock += event.cycles
            self.totals.compute += event.cycles
            self.totals.flops += event.flops
            self.totals.ideal += event.ideal
        elif kind is Dma:
            self._transfer(event.slots, event.transfer)
        elif kind is Wait:
            if event.slot is None:
                self._wait_all()
            else:
                self.clock = max(self.clock, self.slots.get(event.slot, 0.0))
        elif kind is Repeat:
            self._repeat(event)

    def _wait_all(self) -> None:
        self.clock = max(self.clock, self.engine)

    def _transfer(self, slots: tuple[Slot, ...], moved: Transfer) -> None:
        machine = self.machine
        cycles = rules.transfer_cycles(
            machine, moved.ddr_bytes / self.ddr, moved.gsm_bytes / self.gsm, moved.element_cycles)
        end = max(self.clock, self.engine) + cycles
        self.engine = end
        for slot in slots:
            self.slots[slot] = end
        self.totals.dma += cycles
        self.totals.ddr_bytes += moved.ddr_bytes
        if not machine.dma_overlaps:
            self.clock = end

    def _repeat(self, event: Repeat) -> None:
        before = None
        done = 0
        while done < event.count:
            clock, totals = self.clock, self.totals.copy()
            for inner in event.events:
                self._step(inner)
            done += 1
            state = self._relation()
            if state == before:
                left = event.count - done
                shift = (self.clock - clock) * left
                self.totals.add(self.totals.minus(totals), left)
                self.slots = {slot: end + shift for slot, end in self.slots.items()}
                self.clock += shift
                self.engine += shift
                return
            before = state

    def _relation(self) -> tuple:
        """Everything in the future that depends on the past, relative to the clock."""
        ends = tuple(sorted((slot, round(end - self.clock, 3)) for slot, end in self.slots.items() if end > self.clock))
        return round(max(self.engine - self.clock, 0.0), 3), ends


def traffic(events: Iterable[Event]) -> tuple[int, int]:
    """DDR and GSM bytes of a phase."""
    ddr = gsm = 0
    for event in events:
        if type(event) is Dma:
            ddr += event.transfer.ddr_bytes
            gsm += event.transfer.gsm_bytes
        elif type(event) is Repeat:
            inner = traffic(event.events)
            ddr += inner[0] * event.count
            gsm += inner[1] * event.count
    return ddr, gsm
