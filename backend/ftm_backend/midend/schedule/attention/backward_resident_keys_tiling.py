"""Sizes of attention's backward with resident keys: a group of cores holds all keys of an entry.

Each core of the group keeps a slice of the keys and values, and their gradients, in AM. The queries
pass by in blocks; cores exchange partial row statistics and partial dQ.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.lowering.attention.backward_exchange import CoreGroupSizes, group_workspace
from ftm_backend.midend.lowering.attention.backward_resident_keys import ResidentKeysPass
from ftm_backend.midend.lowering.gemm.block_transfers import nodes_above
from ftm_backend.midend.schedule.attention.forward_tiling import (
    EXPONENTIAL_OPERATIONS,
    MAP_STARTUP_CYCLES,
)
from ftm_backend.midend.schedule.attention.match_backward import (
    AttentionBackwardPattern,
    OperandGradient,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["overlapped", "resident_keys_plan"]

_USABLE_AM = 0.98
"""Fraction of AM that is planned for; the alignment of tiles takes the rest."""


def resident_keys_plan(
    pattern: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> tuple[float, CoreGroupSizes] | None:
    """Return the cycles of the busiest core and the cheapest sizes for ``cores`` cores.

    None if no group of cores can hold all keys, or if a gradient is stored by columns.
    """
    _, m, n, d, v = pattern.axes
    if any(
        _lies_as_columns(pattern, *side)
        for side in ((pattern.of_q, m, d), (pattern.of_k, n, d), (pattern.of_v, n, v))
    ):
        return None
    costs, room = _Costs(pattern, machine), _USABLE_AM * machine.am_bytes
    candidates = sorted(
        (costs.of(sizes), sizes)
        for sizes in _sizes(pattern, machine, cores)
        if costs.held(sizes) <= room
    )
    return next((x for x in candidates if _fits(pattern, machine, x[1])), None)


def _lies_as_columns(
    pattern: AttentionBackwardPattern, gradient: OperandGradient, outer: int, inner: int
) -> bool:
    """Whether a gradient's rows are not contiguous, which requires stores of single elements."""
    indices = [gradient.access(s.index) for o in gradient.epilogue.outputs for s in o.stores]
    return any(x.coeffs[inner] != 1 < pattern.extents[inner] for x in indices)


def _sizes(
    pattern: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> Iterator[CoreGroupSizes]:
    *_, queries, keys, _, _ = pattern.extents
    widths = machine.mm_widths(pattern.accumulator)
    # If the cores of a group share rows of dQ, rows and columns are traversed as one axis.
    shares_rows = not pattern.of_q.epilogue.positions
    multiples = (
        machine.lanes(pattern.accumulator),
        *(count * width for width in widths for count in (1, 2)),
    )
    counts = (
        1,
        2,
        3,
        *(cost_rules.pieces(queries, count * width) for width in widths for count in (1, 2)),
    )
    blocks = sorted(
        {
            *(min(queries, size) for size in multiples),
            *(cost_rules.pieces(queries, count) for count in counts),
        }
    )
    for group in range(1, cores + 1 if shares_rows else 2):
        slice_keys = cost_rules.pieces(keys, group)
        if (group - 1) * slice_keys < keys:
            yield from (
                CoreGroupSizes(slice_keys, block, group, cores // group, slots)
                for block in blocks
                for slots in (1, 2)
                if block <= 2 * widths[0]
            )


def _fits(
    pattern: AttentionBackwardPattern, machine: MachineParameters, sizes: CoreGroupSizes
) -> bool:
    """Whether all tiles fit at once."""
    b = TileBuilder("sizes")
    ResidentKeysPass(pattern, b, sizes, [Value(pattern.accumulator, (1,))] * 4)
    return sum(t.bytes for t in b.kernel.tiles) <= _USABLE_AM * machine.am_bytes


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
        self.operations = (
            EXPONENTIAL_OPERATIONS[self.acc_dtype] + _operations(first),
            1 + _operations(second),
        )
        self.computed = pattern.score is not pattern.scores
        reads = [x.payload for nodes in (first, second) for x in nodes if x.op == "in"]
        self.masks = [o for o in reads if o.index.coeffs[m] and o.index.coeffs[n]]
        self.transposed = [o for o in self.masks if o.index.coeffs[n] == 1]

    def of(self, sizes: CoreGroupSizes) -> float:
        """Return the cycles with these sizes."""
        keys, queries, cores, groups, slots = sizes
        busy = min(groups, self.entries)
        entries = cost_rules.pieces(self.entries, busy)  # batch entries of the busiest group
        left = (self.entries - 1) % busy + 1  # groups with that many entries
        rate, last_rate = (
            cost_rules.bytes_per_cycle(self.machine, count * cores) for count in (busy, left)
        )
        exchange_rate = self._exchange_rate(sizes, busy)
        full, rest = divmod(self.queries, queries)
        computing = full * self._step(sizes, queries, exchange_rate) + (
            self._step(sizes, rest, exchange_rate) if rest else 0.0
        )
        size, moved = ELEMENT_BYTES[self.acc_dtype], ELEMENT_BYTES[self.pattern.k.dtype]
        a_slice, a_block = keys * (self.d + self.v) * moved, queries * (self.d + self.v) * moved
        passing_bytes = self.queries * ((self.d + self.v) * moved + self.d * size / cores)
        passing_bytes += sum(self.queries * keys * ELEMENT_BYTES[o.value.dtype] for o in self.masks)
        moving = (2 * a_slice + passing_bytes) / rate  # of one batch entry
        ends, waiting = (a_slice + a_block) / rate + a_slice / last_rate, 0.0
        if cores > 1:
            moving += 2 * self.queries * self.d * size / exchange_rate
            # The partial dQ of the last block are added up after all have been stored.
            part = queries * self.d * size
            ends += (
                self.machine.barrier_cycles + 2 * part / exchange_rate + part / cores / last_rate
            )
            # The statistics of the next entry's first rows are stored after this entry's gradients.
            waiting = (entries - 1) * max(0.0, a_slice / rate - self._scores(keys, queries))
        cycles = (
            overlapped(entries * computing, self.entries / busy * moving - ends) + ends + waiting
        )
        if slots == 1:  # the next slice is loaded after the last products with this one
            cycles += (entries - 1) * max(
                0.0, (a_slice + a_block) / rate - 2 * self._product(keys, self.d, queries)
            )
        return float(cycles)

    def _exchange_rate(self, sizes: CoreGroupSizes, busy: int) -> float:
        """Return the bytes per cycle that a core of ``busy`` groups exchanges.

        The workspace of a kernel is in GSM if it fits, otherwise in DDR.
        """
        needed = sum(
            ELEMENT_BYTES[acc_dtype] * count
            for acc_dtype, count in group_workspace(self.pattern, sizes)
        )
        if needed <= self.machine.gsm_bytes:
            return float(self.machine.gsm_bytes_per_cycle / (busy * sizes.cores))
        return cost_rules.bytes_per_cycle(self.machine, busy * sizes.cores)

    def held(self, sizes: CoreGroupSizes) -> int:
        """Return a lower bound of the bytes of AM, to reject candidates before building tiles."""
        keys, queries, *_, slots = sizes
        size, moved, rows = (
            ELEMENT_BYTES[self.acc_dtype],
            ELEMENT_BYTES[self.pattern.k.dtype],
            self.d + self.v,
        )
        return (
            2 * keys * queries * size
            + keys * rows * (slots * moved + size)
            + 3 * queries * rows * moved
        )

    def _product(self, m: int, n: int, k: int) -> float:
        return float(cost_rules.outer_cycles(self.machine, self.acc_dtype, m, n, k))

    def _scores(self, keys: int, queries: int) -> float:
        """Return the cycles of the scores of a block and of the products of their gradients."""
        cycles = self._product(keys, queries, self.d) + self._product(keys, queries, self.v)
        return cycles + float(
            cost_rules.transpose_cycles(self.machine, self.acc_dtype, self.d + self.v, queries)
        )

    def _step(self, sizes: CoreGroupSizes, queries: int, exchange_rate: float) -> float:
        """Return the cycles of one block of queries; ``exchange_rate`` is in bytes per cycle."""
        machine, (keys, _, cores, *_), d, v = self.machine, sizes, self.d, self.v
        cycles = self._scores(keys, queries)
        cycles += (
            self._product(queries, d, keys)
            + self._product(keys, d, queries)
            + self._product(keys, v, queries)
        )
        cycles += sum(
            float(cost_rules.transpose_cycles(machine, o.value.dtype, keys, queries))
            for o in self.transposed
        )
        vectors = cost_rules.pieces(queries, machine.lanes(self.acc_dtype))
        per_vector = (
            1
            + self.computed
            + sum(max(2.0, count / machine.fma_units) for count in self.operations)
        )
        cycles += keys * vectors * per_vector + MAP_STARTUP_CYCLES[self.acc_dtype]
        if cores > 1:
            rows = 3 * ELEMENT_BYTES[self.acc_dtype] * cores * queries
            cycles += (
                machine.barrier_cycles
                + 6 * machine.dma_latency
                + rows / exchange_rate
                + MAP_STARTUP_CYCLES[self.acc_dtype]
            )
            cycles += cost_rules.pieces(queries * d, machine.lanes(self.acc_dtype))
        return cycles


def _operations(nodes: list[Node]) -> int:
    return sum(x.op.startswith(("arith.", "math.")) for x in nodes)


def overlapped(computing: float, moving: float) -> float:
    """Return the time of compute and DMA in parallel; if balanced, each sometimes waits."""
    return float((computing**4 + moving**4) ** 0.25)
