"""Modelled cost of a data-parallel training step on many ranks: DDP and FSDP2.

The program is a step of DDP as recorded: forward, backward, all-reduces of gradients, optimizer.
Each rank runs it on a batch of the recorded size (weak scaling). DDP is the program as it is.
FSDP2 is derived from it:

- An all-reduce becomes a reduce-scatter. So gradients and parameters form as many units as DDP has
  buckets.
- A unit's parameters are gathered before the forward pass first reads one of them and, except for
  the last unit, again before the backward pass does. A gather may begin when the unit before it
  begins, so two units are in memory at a time.
- What follows the first wait for an all-reduce, the optimizer, takes 1/ranks of its time,
  since it works on shards.

A program that gathers and scatters itself, as a recorded step of FSDP2, is modelled as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise

from ftm_backend.perf_model.collective_costs import collective_cost
from ftm_backend.perf_model.communication import (
    CommunicationPhase,
    CommunicationPoint,
    CommunicationTime,
    StepLog,
    replay,
)
from ftm_backend.perf_model.cycle_model import CycleProfile
from ftm_backend.perf_model.events import CollectiveEvent, CollectiveWaitEvent
from ftm_backend.target.presets import MachineParameters

EFFICIENT = 0.9
"""Efficiency up to which a step counts as scaling well."""
LEAST_GAIN = 1.5
"""Twice as many ranks must give this many times the throughput, or the step stops scaling."""


class NoCollectivesError(ValueError):
    """The program does not communicate, so there is nothing to model."""


@dataclass(frozen=True)
class ScalingRow:
    """A step on a number of ranks.

    Attributes:
        ranks: Number of ranks.
        seconds: Time of the step.
        communication: Seconds in which the fabric is busy.
        hidden: Fraction of these during which cores compute.
        efficiency: Time of the step on one rank, divided by ``seconds``.
        algorithm: Algorithm of the largest collective.
    """

    ranks: int
    seconds: float
    communication: float
    hidden: float
    efficiency: float
    algorithm: str


@dataclass(frozen=True)
class StrategyScaling:
    """The rows of one way to train."""

    name: str
    rows: tuple[ScalingRow, ...]

    @property
    def efficient_ranks(self) -> int:
        """The most ranks up to which all have an efficiency of `EFFICIENT` or more."""
        last = 1
        for row in self.rows:
            if row.efficiency < EFFICIENT:
                break
            last = row.ranks
        return last

    @property
    def stops_at(self) -> int | None:
        """The first number of ranks whose double gains less than `LEAST_GAIN`, if any."""
        for fewer, more in pairwise(self.rows):
            gain = more.ranks * more.efficiency / (fewer.ranks * fewer.efficiency)
            if more.ranks == 2 * fewer.ranks and gain < LEAST_GAIN:
                return fewer.ranks
        return None

    def summary(self) -> str:
        """Return a sentence on how far it scales."""
        most = self.rows[-1].ranks
        well = self.efficient_ranks
        first = (
            f"an efficiency of {EFFICIENT:.0%} or more up to {well} ranks"
            if well > 1
            else f"an efficiency below {EFFICIENT:.0%}"
        )
        stops = self.stops_at
        return f"{self.name}: {first}; " + (
            f"stops scaling at {stops} ranks (twice as many give less than {LEAST_GAIN}x)"
            if stops
            else f"scales to {most} ranks (each doubling gives at least {LEAST_GAIN}x)"
        )


def rank_counts(most: int) -> list[int]:
    """Return the powers of two from 2, and ``most``."""
    counts = [1 << k for k in range(1, most.bit_length())]
    return counts if counts[-1] == most else [*counts, most]


def scaling(
    profile: CycleProfile, machine: MachineParameters, ranks: Sequence[int]
) -> list[StrategyScaling]:
    """Return the cost of a step on numbers of ranks, for each strategy.

    Args:
        profile: Of a step of DDP or FSDP2.
        machine: The machine that was modelled.
        ranks: Numbers of ranks.

    Raises:
        NoCollectivesError: The program has no collective.
    """
    log = profile.log
    if not log.started:
        raise NoCollectivesError(
            "the program has no collectives; record a training step of "
            "DistributedDataParallel, for example with FTM_DUMP=FOLDER under torchrun"
        )
    largest = max((event for _, event in log.started), key=lambda event: event.size)

    def rows(
        step: Callable[[int], CommunicationTime], kind: Callable[[str], str]
    ) -> tuple[ScalingRow, ...]:
        found = []
        for count in ranks:
            time = step(count)
            algorithm = collective_cost(machine, kind(largest.kind), largest.size, count).algorithm
            found.append(
                ScalingRow(
                    count,
                    time.total / machine.clock_hz,
                    time.communication / machine.clock_hz,
                    time.hidden,
                    profile.cycles / time.total,
                    algorithm,
                )
            )
        return tuple(found)

    def cost(count: int, kind: Callable[[str], str]) -> Callable[[CollectiveEvent], float]:
        return lambda event: (
            collective_cost(machine, kind(event.kind), event.size, count).seconds * machine.clock_hz
        )

    def as_recorded(count: int) -> CommunicationTime:
        return replay(log.phases, profile.cycles, cost(count, str))

    if any(event.kind in ("ALLGATHER", "REDUCESCATTER") for _, event in log.started):
        return [StrategyScaling("FSDP2", rows(as_recorded, str))]
    sharded = _ShardedStep(log, profile.cycles)

    def derived(count: int) -> CommunicationTime:
        return replay(sharded.phases(count), sharded.computation(count), cost(count, _scattered))

    return [
        StrategyScaling("DDP", rows(as_recorded, str)),
        StrategyScaling("FSDP2", rows(derived, _scattered)),
    ]


def _scattered(kind: str) -> str:
    return "REDUCESCATTER" if kind == "ALLREDUCE" else kind


class _ShardedStep:
    """A step of FSDP2, derived from one of DDP; see the module's text."""

    def __init__(self, log: StepLog, cycles: float) -> None:
        self._log, self._cycles = log, cycles
        first = log.first_reduction_wait
        self._tail = cycles if first is None else first
        self._gathers = [
            CommunicationPhase(time, {}, (CommunicationPoint(0.0, 0, event),))
            for time, event in self._schedule()
        ]

    def computation(self, ranks: int) -> float:
        """Return the cycles of the step without communication."""
        return self._sharded(self._cycles, ranks)

    def phases(self, ranks: int) -> list[CommunicationPhase]:
        """Return the phases that communicate."""
        shrunk = [self._shrink(phase, ranks) for phase in self._log.phases]
        return sorted([*self._gathers, *shrunk], key=lambda phase: phase.start)

    def _sharded(self, time: float, ranks: int) -> float:
        return min(time, self._tail) + max(0.0, time - self._tail) / ranks

    def _shrink(self, phase: CommunicationPhase, ranks: int) -> CommunicationPhase:
        start = self._sharded(phase.start, ranks)
        points = tuple(
            point._replace(time=self._sharded(phase.start + point.time, ranks) - start)
            for point in phase.points
        )
        rate = ranks if phase.start > self._tail else 1
        slack = {core: time / rate for core, time in phase.slack.items()}
        return CommunicationPhase(start, slack, points)

    def _schedule(self) -> Iterator[tuple[float, CollectiveEvent | CollectiveWaitEvent]]:
        """Yield the gathers and the waits for them, with their times."""
        units = self._units()
        if not units:
            return
        sizes = [sum(size for size, _ in unit) for unit in units]
        reads = [sorted(time for _, times in unit for time in times) for unit in units]
        turn = reads[-1][0]  # the last unit's forward pass; the backward pass follows
        forward = [(times[0], unit) for unit, times in enumerate(reads)]
        backward = [
            (min(later), unit)
            for unit, times in enumerate(reads[:-1])
            if (later := [time for time in times if turn < time < self._tail])
        ]
        before = 0.0
        for turns in (forward, sorted(backward)):
            for time, unit in turns:
                call = time, unit
                yield before, CollectiveEvent("ALLGATHER", sizes[unit], call)
                yield time, CollectiveWaitEvent(call)
                before = time

    def _units(self) -> list[list[tuple[int, list[float]]]]:
        """Return the parameters of each unit, as (bytes, times of reads), in forward order.

        A parameter is a float input that is read both before and after that wait: by the
        model, and by the optimizer. The units have the sizes of DDP's buckets, the last first.
        """
        parameters = sorted(
            (
                (size, reads)
                for size, reads in self._log.reads.values()
                if reads[0] < self._tail <= reads[-1]
            ),
            key=lambda parameter: parameter[1][0],
        )
        total = sum(size for size, _ in parameters)
        buckets = [e.size for _, e in reversed(self._log.started) if e.kind == "ALLREDUCE"]
        ends = [total * end / sum(buckets) for end in accumulate(buckets)]
        units: list[list[tuple[int, list[float]]]] = [[] for _ in buckets]
        done = 0
        for parameter in parameters:
            middle = done + parameter[0] / 2
            units[next(k for k, end in enumerate(ends) if middle < end)].append(parameter)
            done += parameter[0]
        return [unit for unit in units if unit]


def table(profile: CycleProfile, machine: MachineParameters, found: list[StrategyScaling]) -> str:
    """Return a table for people."""
    sizes = [event.size for _, event in profile.log.started]
    levels = ", ".join(
        f"{level.name} of {level.ranks} ({level.latency * 1e6:g} us, "
        f"{level.bandwidth / 1e9:g} GB/s)"
        for level in machine.fabric.levels
    )
    lines = [
        f"modelled on {machine.name}, {profile.cores} cores a rank, one batch a rank",
        f"fabric: {levels}",
        f"computation {profile.seconds * 1e3:.3f} ms; {len(sizes)} collectives of "
        f"{sum(sizes) / 1e6:.3f} MB in the recorded step",
        f"{'':6} {'ranks':>6} {'communication ms':>17} {'hidden':>7} {'step ms':>9} "
        f"{'efficiency':>11}  largest collective",
    ]
    for strategy in found:
        lines += [
            f"{strategy.name:6} {row.ranks:6d} {row.communication * 1e3:17.3f} {row.hidden:7.1%} "
            f"{row.seconds * 1e3:9.3f} {row.efficiency:11.1%}  {row.algorithm}"
            for row in strategy.rows
        ]
    return "\n".join(lines + [strategy.summary() for strategy in found])


def as_json(
    profile: CycleProfile, machine: MachineParameters, found: list[StrategyScaling]
) -> dict[str, object]:
    """Return the same as `table`, as JSON's types."""
    return {
        "modelled": True,
        "machine": profile.machine,
        "cores": profile.cores,
        "computation_seconds": profile.seconds,
        "fabric": [asdict(level) for level in machine.fabric.levels],
        "collectives": [
            {"kind": event.kind, "bytes": event.size} for _, event in profile.log.started
        ],
        "strategies": [
            asdict(strategy)
            | {"efficient_ranks": strategy.efficient_ranks, "stops_at": strategy.stops_at}
            for strategy in found
        ],
    }
