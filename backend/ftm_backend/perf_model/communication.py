"""Communication of a step: when its collectives start and are waited for, and what waiting costs.

`cycle_model` models a program without communication, and notes where cores start collectives and
wait for them. `replay` puts the collectives on the fabric: one at a time, in the order in which
they start. Cores compute meanwhile. A wait delays its core, and the next barrier delays all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ftm_backend.perf_model.events import CollectiveEvent, CollectiveWaitEvent
from ftm_backend.perf_model.timeline import Timeline


class CommunicationPoint(NamedTuple):
    """A core starts a collective or waits for one, ``time`` cycles after its phase begins."""

    time: float
    core: int
    event: CollectiveEvent | CollectiveWaitEvent


class CommunicationPhase(NamedTuple):
    """The points between two barriers.

    Attributes:
        start: Cycles from the start of the program.
        slack: Core -> cycles by which it ends before the slowest core.
        points: In the order of time.
    """

    start: float
    slack: Mapping[int, float]
    points: tuple[CommunicationPoint, ...]


@dataclass
class StepLog:
    """What `cycle_model` notes of a program.

    Attributes:
        phases: The phases that communicate.
        reads: Float input of the program -> its bytes, and the cycles at which phases begin to read
            it.
    """

    phases: list[CommunicationPhase] = field(default_factory=list)
    reads: dict[int, tuple[int, list[float]]] = field(default_factory=dict)

    def note(
        self, inputs: Mapping[int, int], start: float, length: float, lines: Sequence[Timeline]
    ) -> None:
        """Add a phase.

        Args:
            inputs: Float input of the program -> its bytes.
            start: Cycles at which the phase begins.
            length: Cycles of the slowest core.
            lines: The cores' timelines in the phase.
        """
        points = [
            CommunicationPoint(time, core, event)
            for core, line in enumerate(lines)
            for time, event in line.collectives
        ]
        if points:
            points.sort(key=lambda point: point.time)
            slack = {core: length - line.clock for core, line in enumerate(lines)}
            self.phases.append(CommunicationPhase(start, slack, tuple(points)))
        first: dict[int, float] = {}
        for line in lines:
            for buffer, time in line.first_transfers.items():
                if buffer in inputs:
                    first[buffer] = min(time, first.get(buffer, time))
        for buffer, time in first.items():
            self.reads.setdefault(buffer, (inputs[buffer], []))[1].append(start + time)

    @property
    def started(self) -> list[tuple[float, CollectiveEvent]]:
        """The collectives, with the cycles at which they start."""
        return [
            (phase.start + point.time, point.event)
            for phase in self.phases
            for point in phase.points
            if isinstance(point.event, CollectiveEvent)
        ]

    @property
    def first_reduction_wait(self) -> float | None:
        """The cycles at which the program first waits for an all-reduce.

        Waits for other collectives do not count: DDP broadcasts buffers before the forward pass.
        """
        reductions = {event.call for _, event in self.started if event.kind == "ALLREDUCE"}
        waits = [
            phase.start + point.time
            for phase in self.phases
            for point in phase.points
            if isinstance(point.event, CollectiveWaitEvent) and point.event.call in reductions
        ]
        return min(waits, default=None)


class CommunicationTime(NamedTuple):
    """Cycles of a step with communication.

    Attributes:
        total: Of the step.
        communication: In which the fabric is busy.
        exposed: By which communication makes the step longer.
    """

    total: float
    communication: float
    exposed: float

    @property
    def hidden(self) -> float:
        """Fraction of the communication during which cores compute."""
        if not self.communication:
            return 1.0
        return max(0.0, 1 - self.exposed / self.communication)


def replay(
    phases: Iterable[CommunicationPhase],
    computation: float,
    cost: Callable[[CollectiveEvent], float],
) -> CommunicationTime:
    """Return the time of a step whose collectives take time.

    Args:
        phases: Phases that communicate, in the order of time.
        computation: Cycles of the step if collectives take no time.
        cost: Cycles of a collective.
    """
    delay = fabric_free = busy = 0.0
    ends: dict[object, float] = {}
    for phase in phases:
        waited: dict[int, float] = {}
        for point in phase.points:
            now = phase.start + delay + point.time + waited.get(point.core, 0.0)
            if isinstance(point.event, CollectiveEvent):
                cycles = cost(point.event)
                busy += cycles
                fabric_free = max(now, fabric_free) + cycles
                ends[point.event.call] = fabric_free
            else:
                wait = max(0.0, ends.pop(point.event.call, now) - now)
                waited[point.core] = waited.get(point.core, 0.0) + wait
        late = (time - phase.slack.get(core, 0.0) for core, time in waited.items())
        delay += max(0.0, *late) if waited else 0.0
    total = max(computation + delay, fabric_free)
    return CommunicationTime(total, busy, total - computation)
