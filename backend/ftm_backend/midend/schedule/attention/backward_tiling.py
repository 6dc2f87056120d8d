"""Sizes of attention's backward, chosen by the cost model.

Each core of a group keeps a slice of the keys and values, and their gradients, in AM. The queries
pass in blocks; cores exchange partial row statistics and partial dQ. If the slices of a group do
not cover the keys, a core has several, one per round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.lowering.attention.backward_steps import BackwardSteps
from ftm_backend.midend.lowering.attention.backward_workspace import (
    BackwardSizes,
    exchange_buffers,
    round_buffers,
)
from ftm_backend.midend.lowering.gemm.block_transfers import nodes_above
from ftm_backend.midend.schedule.attention.forward_tiling import (
    EXPONENTIAL_OPERATIONS,
    MAP_STARTUP_CYCLES,
)
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["BackwardTiling", "backward_plan"]

_USABLE_AM = 0.98
"""Fraction of AM that is planned for; the alignment of tiles takes the rest."""

_ROUNDS = 3
"""Numbers of rounds that are compared for a group: the smallest ones for which slices fit."""


class BackwardTiling(NamedTuple):
    """Modelled cycles of the busiest core, and sizes."""

    cycles: float
    sizes: BackwardSizes


def backward_plan(
    pattern: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> BackwardTiling | None:
    """Return the cheapest plan for ``cores`` cores; None if no sizes fit on chip."""
    costs = _Costs(pattern, machine)
    candidates = sorted(
        BackwardTiling(costs.of(sizes), sizes) for sizes in _sizes(pattern, machine, cores)
    )
    return next((x for x in candidates if _fits(pattern, machine, x.sizes)), None)


def _sizes(
    pattern: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> Iterator[BackwardSizes]:
    """Yield candidates; some may not fit."""
    *_, keys, _, _ = pattern.extents
    room = _USABLE_AM * machine.am_bytes
    blocks = _query_blocks(pattern, machine)
    for group in range(1, cores + 1 if _shares_rows(pattern) else 2):
        found = 0
        for rounds in _rounds(machine, keys, group):
            held_keys = cost_rules.pieces(keys, group * rounds)
            sizes = [
                BackwardSizes(held_keys, block, group, cores // group, rounds, slots)
                for block in blocks
                for slots in (1, 2)
            ]
            sizes = [x for x in sizes if _held(pattern, x) <= room]
            yield from sizes
            found += bool(sizes)
            if found == _ROUNDS:
                break


def _query_blocks(pattern: AttentionBackwardPattern, machine: MachineParameters) -> list[int]:
    """Return candidate numbers of queries of a block."""
    queries, widths = pattern.extents[-4], machine.mm_widths(pattern.accumulator)
    multiples = [count * width for width in widths for count in (1, 2)]
    counts = (1, 2, 3, *(cost_rules.pieces(queries, size) for size in multiples))
    sizes = (machine.lanes(pattern.accumulator), *multiples)
    blocks = {
        *(min(queries, size) for size in sizes),
        *(cost_rules.pieces(queries, count) for count in counts),
    }
    return sorted(block for block in blocks if block <= 2 * widths[0])


def _rounds(machine: MachineParameters, keys: int, cores: int) -> list[int]:
    """Return numbers of rounds for which no slice is empty, smallest first."""
    height = machine.mm_rows
    slices = (cores * height * heights for heights in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48))
    counts = {1, 2, 3, 4, *(cost_rules.pieces(keys, size) for size in slices)}
    return sorted(
        count
        for count in counts
        if (cores * count - 1) * cost_rules.pieces(keys, cores * count) < keys
    )


def _shares_rows(pattern: AttentionBackwardPattern) -> bool:
    """Whether the cores of a group can share rows of dQ.

    They traverse rows and columns as one axis.
    """
    _, _, _, d, _ = pattern.axes
    gradient = pattern.of_q
    indices = [gradient.access(s.index) for o in gradient.epilogue.outputs for s in o.stores]
    by_rows = all(x.coeffs[d] == 1 or pattern.extents[d] == 1 for x in indices)
    return by_rows and not gradient.epilogue.positions


def _fits(
    pattern: AttentionBackwardPattern, machine: MachineParameters, sizes: BackwardSizes
) -> bool:
    """Whether all tiles fit at once, on as many cores as planned and on one."""
    for planned in dict.fromkeys((sizes, sizes.one_core())):
        b = TileBuilder("sizes")
        buffers = [Value(pattern.accumulator, (1,))] * 4
        BackwardSteps(pattern, b, planned, buffers, buffers)
        if sum(t.bytes for t in b.kernel.tiles) > _USABLE_AM * machine.am_bytes:
            return False
    return True


def _held(pattern: AttentionBackwardPattern, sizes: BackwardSizes) -> int:
    """Return a lower bound of the bytes of AM, to reject candidates before building tiles."""
    rows = pattern.extents[-2] + pattern.extents[-1]
    size, moved = ELEMENT_BYTES[pattern.accumulator], ELEMENT_BYTES[pattern.k.dtype]
    return (
        2 * sizes.keys * sizes.queries * size
        + sizes.keys * rows * (sizes.slots * moved + size)
        + 3 * sizes.queries * rows * moved
    )


class _Costs:
    """Cycles of the busiest core, as a function of the sizes."""

    def __init__(self, pattern: AttentionBackwardPattern, machine: MachineParameters) -> None:
        """Count the operations of the maps."""
        self.pattern, self.machine, self.acc_dtype = pattern, machine, pattern.accumulator
        batch, m, n, d, v = pattern.axes
        self.queries, self.d, self.v = (pattern.extents[a] for a in (m, d, v))
        self.entries = prod(pattern.extents[a] for a in batch)
        inner = (pattern.slope, pattern.weight)
        first = nodes_above([pattern.along], ())
        second = nodes_above(inner, {id(pattern.exponential), *map(id, pattern.known)})
        exponentials = EXPONENTIAL_OPERATIONS[self.acc_dtype]
        self.operations = (exponentials + _operations(first), 1 + _operations(second))
        self.recomputed = exponentials + _operations(
            nodes_above([*inner, pattern.score], {id(x) for x in pattern.known})
        )
        self.computed = pattern.score is not pattern.scores
        reads = dict.fromkeys(x.payload for x in (*first, *second) if x.op == "in")
        self.masks = [o for o in reads if o.index.coeffs[m] and o.index.coeffs[n]]
        self.transposed = [o for o in self.masks if o.index.coeffs[n] == 1]

    def of(self, sizes: BackwardSizes) -> float:
        """Return the cycles with these sizes."""
        keys, queries, cores, groups, rounds, slots = sizes
        busy = min(groups, self.entries)
        entries = cost_rules.pieces(self.entries, busy)  # batch entries of the busiest group
        left = (self.entries - 1) % busy + 1  # groups with that many entries
        rate, last_rate = (
            cost_rules.bytes_per_cycle(self.machine, count * cores) for count in (busy, left)
        )
        workspace_rate = self._workspace_rate(sizes, busy)
        full, rest = divmod(self.queries, queries)
        computing = rounds * (
            full * self._step(sizes, queries, workspace_rate)
            + (self._step(sizes, rest, workspace_rate) if rest else 0.0)
        )
        size, moved = ELEMENT_BYTES[self.acc_dtype], ELEMENT_BYTES[self.pattern.k.dtype]
        a_slice, a_block = keys * (self.d + self.v) * moved, queries * (self.d + self.v) * moved
        sweeps = 1 if rounds == 1 else 2
        passing_bytes = self.queries * (self.d + self.v) * moved
        passing_bytes += sum(self.queries * keys * ELEMENT_BYTES[o.value.dtype] for o in self.masks)
        moving = (  # of one batch entry
            rounds * ((sweeps + 1) * a_slice + sweeps * passing_bytes)
            + self.queries * self.d * size / cores
        ) / rate
        ends, waiting = (a_slice + a_block) / rate + a_slice / last_rate, 0.0
        if rounds > 1:
            if queries < self.queries:
                moving += (rounds - 1) * 2 * (3 + self.d) * self.queries * size / workspace_rate
            # The products of a slice end before the gradients of the previous one are stored.
            waiting = entries * rounds * max(0.0, a_slice / rate - self._scores(keys, queries))
        if cores > 1:
            moving += 2 * self.queries * self.d * size / workspace_rate
            # The partial dQ of the last block are added up after all have been stored.
            part = queries * self.d * size
            ends += (
                self.machine.barrier_cycles + 2 * part / workspace_rate + part / cores / last_rate
            )
            # The statistics of the next entry's first rows are stored after this entry's gradients.
            waiting = max(
                waiting, (entries - 1) * max(0.0, a_slice / rate - self._scores(keys, queries))
            )
        cycles = (
            _overlapped(entries * computing, self.entries / busy * moving - ends) + ends + waiting
        )
        if slots == 1:  # the next slice is loaded after the last products with this one
            next_slice = (a_slice + a_block) / rate
            exposed = next_slice - 2 * self._product(keys, self.d, queries)
            cycles += (entries * rounds - 1) * max(0.0, exposed)
            if rounds > 1:
                exposed = next_slice - self._map(keys, queries, self.operations[:1])
                cycles += entries * rounds * max(0.0, exposed)
        return float(cycles)

    def _workspace_rate(self, sizes: BackwardSizes, busy: int) -> float:
        """Return the bytes per cycle that a core of ``busy`` groups moves to the workspace.

        The workspace of a kernel is in GSM if it fits, otherwise in DDR.
        """
        buffers = exchange_buffers(self.pattern, sizes) + round_buffers(self.pattern, sizes)
        if sum(ELEMENT_BYTES[dtype] * count for dtype, count in buffers) <= self.machine.gsm_bytes:
            return float(self.machine.gsm_bytes_per_cycle / (busy * sizes.cores))
        return cost_rules.bytes_per_cycle(self.machine, busy * sizes.cores)

    def _product(self, m: int, n: int, k: int) -> float:
        return float(cost_rules.outer_cycles(self.machine, self.acc_dtype, m, n, k))

    def _scores(self, keys: int, queries: int) -> float:
        """Return the cycles of the scores of a block and of the products of their gradients."""
        cycles = self._product(keys, queries, self.d) + self._product(keys, queries, self.v)
        return cycles + float(
            cost_rules.transpose_cycles(self.machine, self.acc_dtype, self.d + self.v, queries)
        )

    def _step(self, sizes: BackwardSizes, queries: int, workspace_rate: float) -> float:
        """Return the cycles of a slice and a block of queries, with its visit for statistics.

        ``workspace_rate`` is in bytes per cycle.
        """
        machine, (keys, _, cores, _, rounds, _), d, v = self.machine, sizes, self.d, self.v
        visits = 1 if rounds == 1 else 2
        cycles = visits * self._scores(keys, queries)
        cycles += (
            self._product(queries, d, keys)
            + self._product(keys, d, queries)
            + self._product(keys, v, queries)
        )
        cycles += visits * sum(
            float(cost_rules.transpose_cycles(machine, o.value.dtype, keys, queries))
            for o in self.transposed
        )
        startup = MAP_STARTUP_CYCLES[self.acc_dtype]
        operations = self.operations if rounds == 1 else (self.operations[0], self.recomputed)
        cycles += self._map(keys, queries, operations)
        # Statistics of several slices are merged with another exponential.
        cycles += startup if rounds == 1 else 3 * startup
        if cores > 1:
            rows = 3 * ELEMENT_BYTES[self.acc_dtype] * cores * queries
            cycles += visits * machine.barrier_cycles
            cycles += 6 * machine.dma_latency + rows / workspace_rate + startup
            cycles += cost_rules.pieces(queries * d, machine.lanes(self.acc_dtype))
        return cycles

    def _map(self, keys: int, queries: int, operations: Sequence[int]) -> float:
        """Return the cycles of maps with so many operations per score, and of the maxima."""
        vectors = cost_rules.pieces(queries, self.machine.lanes(self.acc_dtype))
        each = sum(max(2.0, count / self.machine.fma_units) for count in operations)
        return float(keys * vectors * (1 + self.computed + each))


def _operations(nodes: list[Node]) -> int:
    return sum(x.op.startswith(("arith.", "math.")) for x in nodes)


def _overlapped(computing: float, moving: float) -> float:
    """Return the time of compute and DMA in parallel; if balanced, each sometimes waits."""
    return float((computing**4 + moving**4) ** 0.25)
