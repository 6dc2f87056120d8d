"""Cost of a collective on a fabric: the algorithm of least cost, by alpha-beta models.

A message of n bytes takes ``latency + n / bandwidth`` of the fabric's level that it crosses
(`Fabric.seconds`), and a reduction of n bytes reads both operands and writes the result at the
bandwidth of DDR. Example: a ring of p ranks sums n bytes in 2 (p - 1) messages of n / p.

The formulas are those of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
Operations in MPICH" (2005), and for two trees of Sanders, Speck and Traeff, "Two-tree algorithms
for full bandwidth broadcast, reduction and scan" (2009). ``hierarchical`` scatters within the
groups of the level below, works on the parts between the groups, and gathers within them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from ftm_backend.target.presets import MachineParameters
from ftm_backend.target.presets.fabric import Fabric


class CollectiveCost(NamedTuple):
    """Time of a collective in seconds, and the algorithm that takes it."""

    seconds: float
    algorithm: str


@dataclass(frozen=True)
class Peers:
    """Ranks that take part in a collective.

    Attributes:
        fabric: What connects them.
        reduction: Seconds to reduce a byte.
        count: Number of ranks.
        stride: Distance of neighbors; the ranks between them form groups that do the same.
    """

    fabric: Fabric
    reduction: float
    count: int
    stride: int = 1

    @property
    def rounds(self) -> int:
        """Rounds of an exchange with partners at distances 1, 2, 4 and so on."""
        return (self.count - 1).bit_length()

    def message(self, members: int, size: float, is_crowded: bool) -> float:
        """Return the time of a message within each group of ``members`` neighbors."""
        span = min(members, self.count) * self.stride
        return self.fabric.seconds(span, size, is_crowded, self.stride)

    def groups(self) -> tuple[Peers, Peers] | None:
        """Return the ranks of one group of the level below, and one rank of each group.

        None if the fabric has no groups of several ranks there.
        """
        level = self.fabric.level(self.count * self.stride)
        inner = self.fabric.levels[level - 1].ranks // self.stride if level else 1
        if inner < 2:
            return None
        outer = replace(self, count=-(-self.count // inner), stride=self.stride * inner)
        return replace(self, count=inner), outer


_Algorithm = Callable[[Peers, float], float | None]
"""From ranks and bytes to seconds; None if it does not apply."""


def _extra_rounds(peers: Peers, size: float) -> float:
    """Return the time by which ranks beyond a power of two join an exchange, and leave it."""
    if peers.count & (peers.count - 1) == 0:
        return 0.0
    return 2 * peers.message(peers.count, size, is_crowded=False)


def _ring_half(peers: Peers, size: float) -> float:
    return (peers.count - 1) * peers.message(peers.count, size / peers.count, is_crowded=False)


def _halving_half(peers: Peers, size: float) -> float:
    """Each round exchanges half as much as the one before, at twice the distance."""
    time = _extra_rounds(peers, size) / 2
    for k in range(1, peers.rounds + 1):
        time += peers.message(1 << k, size / (1 << k), is_crowded=True)
    return time


def _hierarchical_half(peers: Peers, size: float) -> float | None:
    if (groups := peers.groups()) is None:
        return None
    inner, outer = groups
    return _best(_HALVES, inner, size).seconds + _best(_HALVES, outer, size / inner.count).seconds


_HALVES: dict[str, _Algorithm] = {
    "ring": _ring_half,
    "halving": _halving_half,
    "hierarchical": _hierarchical_half,
}
"""Moving the parts of a reduce-scatter or, in the other direction, of an all-gather."""


def _scattered(half: _Algorithm) -> _Algorithm:
    """Return the reduce-scatter that moves its parts by ``half``."""

    def scatter(peers: Peers, size: float) -> float | None:
        moved = half(peers, size)
        return None if moved is None else moved + _reduction(peers, size)

    return scatter


def _reduction(peers: Peers, size: float) -> float:
    """Return the time in which each rank reduces its part of the operands of all."""
    return (peers.count - 1) / peers.count * size * peers.reduction


def _ring(peers: Peers, size: float) -> float:
    return 2 * _ring_half(peers, size) + _reduction(peers, size)


def _halving(peers: Peers, size: float) -> float:
    return 2 * _halving_half(peers, size) + _reduction(peers, size)


def _doubling(peers: Peers, size: float) -> float:
    """Each round exchanges and reduces everything; the fewest messages."""
    time = _extra_rounds(peers, size) + peers.rounds * size * peers.reduction
    for k in range(1, peers.rounds + 1):
        time += peers.message(1 << k, size, is_crowded=True)
    return time


def _trees(peers: Peers, size: float) -> float:
    """Reduce along two trees of half the bytes, then broadcast, in pieces of the best size."""
    depth = peers.rounds
    latency = peers.message(peers.count, 0, is_crowded=False)
    rest = peers.message(peers.count, size, is_crowded=False) - latency
    rest += size * peers.reduction / 2  # half of the messages are reduced
    pieces = max(1, round(sqrt(depth * rest / latency)))
    return 2 * (depth + pieces) * (latency + rest / pieces)


def _hierarchical(peers: Peers, size: float) -> float | None:
    if (groups := peers.groups()) is None:
        return None
    inner, outer = groups
    within = 2 * _best(_HALVES, inner, size).seconds + _reduction(inner, size)
    return within + _best(KINDS["ALLREDUCE"], outer, size / inner.count).seconds


def _binomial(peers: Peers, size: float) -> float:
    return sum(peers.message(1 << k, size, is_crowded=False) for k in range(1, peers.rounds + 1))


def _scatter_gather(peers: Peers, size: float) -> float:
    return 2 * _best(_HALVES, peers, size).seconds


def _binomial_reduction(peers: Peers, size: float) -> float:
    return _binomial(peers, size) + peers.rounds * size * peers.reduction


def _scatter_gather_reduction(peers: Peers, size: float) -> float:
    return _scatter_gather(peers, size) + _reduction(peers, size)


def _pairwise(peers: Peers, size: float) -> float:
    """Each rank sends a part to each other rank, in as many rounds."""
    time, done = 0.0, 1
    for level in peers.fabric.levels:
        members = min(max(level.ranks // peers.stride, 1), peers.count)
        time += (members - done) * peers.message(members, size / peers.count, is_crowded=True)
        done = members
    return time


def _gathered(peers: Peers, size: float) -> float:
    """Each round sends twice as many parts as the one before, over twice the distance."""
    part = size / peers.count
    return sum(
        peers.message(1 << k, part * (1 << (k - 1)), is_crowded=False)
        for k in range(1, peers.rounds + 1)
    )


def _farthest(peers: Peers, size: float) -> float:
    return peers.message(peers.count, size, is_crowded=False)


KINDS: dict[str, dict[str, _Algorithm]] = {
    "ALLREDUCE": {
        "ring": _ring,
        "halving": _halving,
        "doubling": _doubling,
        "trees": _trees,
        "hierarchical": _hierarchical,
    },
    "REDUCESCATTER": {name: _scattered(half) for name, half in _HALVES.items()},
    "ALLGATHER": _HALVES,
    "BROADCAST": {"tree": _binomial, "scatter-gather": _scatter_gather},
    "REDUCE": {"tree": _binomial_reduction, "scatter-gather": _scatter_gather_reduction},
    "ALLTOALL": {"pairwise": _pairwise},
    "GATHER": {"tree": _gathered},
    "SCATTER": {"tree": _gathered},
    "SEND": {"message": _farthest},
    "RECV": {"message": _farthest},
}
"""Kind of a collective -> its algorithms. Bytes are those of the whole tensor: of the result of a
gather, of the operand of the others. Messages cross the highest level: who gets them is unknown."""


def _best(algorithms: dict[str, _Algorithm], peers: Peers, size: float) -> CollectiveCost:
    if peers.count == 1:
        return CollectiveCost(0.0, "none")
    costs = {name: algorithm(peers, size) for name, algorithm in algorithms.items()}
    return min(CollectiveCost(time, name) for name, time in costs.items() if time is not None)


def _peers(machine: MachineParameters, ranks: int) -> Peers:
    return Peers(machine.fabric, 3 / machine.ddr_bandwidth, ranks)


def algorithms(machine: MachineParameters, kind: str, size: float, ranks: int) -> dict[str, float]:
    """Return the seconds of each algorithm that applies; see `collective_cost`."""
    peers = _peers(machine, ranks)
    costs = {name: algorithm(peers, size) for name, algorithm in KINDS[kind].items()}
    return {name: time for name, time in costs.items() if time is not None}


@lru_cache(maxsize=4096)
def collective_cost(
    machine: MachineParameters, kind: str, size: float, ranks: int
) -> CollectiveCost:
    """Return the cost of a collective by the algorithm of least cost.

    Args:
        machine: The machine of each rank, with its fabric.
        kind: A key of `KINDS`.
        size: Bytes of the whole tensor.
        ranks: Number of ranks.
    """
    return _best(KINDS[kind], _peers(machine, ranks), size)
