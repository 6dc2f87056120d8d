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
from ftm_backend.midend.schedule.attention.forward_tiling import EXPONENTIAL, STARTED
from ftm_backend.midend.schedule.attention.match_backward import (
    AttentionBackwardPattern,
    OperandGradient,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["overlapped", "team_plan"]

_ROOM = 0.98
"""Fraction of AM that is planned for; the alignment of tiles takes the rest."""


def team_plan(
    form: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> tuple[float, CoreGroupSizes] | None:
    """Return the cycles of the busiest core and the cheapest sizes for ``cores`` cores.

    None if no group of cores can hold all keys, or if a gradient is stored by columns.
    """
    _, m, n, d, v = form.axes
    if any(
        _lies_as_columns(form, *side)
        for side in ((form.of_q, m, d), (form.of_k, n, d), (form.of_v, n, v))
    ):
        return None
    costs, room = _Costs(form, machine), _ROOM * machine.am_bytes
    candidates = sorted(
        (costs.of(sizes), sizes)
        for sizes in _sizes(form, machine, cores)
        if costs.held(sizes) <= room
    )
    return next((x for x in candidates if _fits(form, machine, x[1])), None)


def _lies_as_columns(
    form: AttentionBackwardPattern, gradient: OperandGradient, outer: int, inner: int
) -> bool:
    """Whether a gradient's rows are not contiguous, which requires stores of single elements."""
    indices = [gradient.access(s.index) for o in gradient.epilogue.outputs for s in o.stores]
    return any(x.coeffs[inner] != 1 < form.extents[inner] for x in indices)


def _sizes(
    form: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> Iterator[CoreGroupSizes]:
    *_, queries, keys, _, _ = form.extents
    widths = machine.mm_widths(form.accumulator)
    # If the cores of a group share rows of dQ, rows and columns are traversed as one axis.
    whole = not form.of_q.epilogue.positions
    multiples = (
        machine.lanes(form.accumulator),
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
    for team in range(1, cores + 1 if whole else 2):
        slice_keys = cost_rules.pieces(keys, team)
        if (team - 1) * slice_keys < keys:
            yield from (
                CoreGroupSizes(slice_keys, block, team, cores // team, slots)
                for block in blocks
                for slots in (1, 2)
                if block <= 2 * widths[0]
            )


def _fits(
    form: AttentionBackwardPattern, machine: MachineParameters, sizes: CoreGroupSizes
) -> bool:
    """Whether all tiles fit at once."""
    b = TileBuilder("sizes")
    ResidentKeysPass(form, b, sizes, [Value(form.accumulator, (1,))] * 4)
    return sum(t.bytes for t in b.kernel.tiles) <= _ROOM * machine.am_bytes


class _Costs:
    """Cycles of the busiest core, as a function of the sizes."""

    def __init__(self, form: AttentionBackwardPattern, machine: MachineParameters) -> None:
        """Count the operations of the maps."""
        self.form, self.machine, self.kind = form, machine, form.accumulator
        batch, m, n, d, v = form.axes
        self.queries, self.d, self.v = (form.extents[a] for a in (m, d, v))
        self.entries = prod(form.extents[a] for a in batch)
        inner = (form.slope, form.weight)
        first = nodes_above([form.along], ())
        second = nodes_above(inner, {id(form.exponential), *map(id, form.known)})
        self.operations = EXPONENTIAL[self.kind] + _operations(first), 1 + _operations(second)
        self.computed = form.score is not form.scores
        reads = [x.payload for found in (first, second) for x in found if x.op == "in"]
        self.masks = [o for o in reads if o.index.coeffs[m] and o.index.coeffs[n]]
        self.turned = [o for o in self.masks if o.index.coeffs[n] == 1]

    def of(self, sizes: CoreGroupSizes) -> float:
        """Return the cycles with these sizes."""
        keys, queries, cores, teams, slots = sizes
        busy = min(teams, self.entries)
        entries = cost_rules.pieces(self.entries, busy)  # batch entries of the busiest group
        left = (self.entries - 1) % busy + 1  # groups with that many entries
        rate, last_rate = (
            cost_rules.bytes_per_cycle(self.machine, count * cores) for count in (busy, left)
        )
        told = self._exchange_rate(sizes, busy)
        full, rest = divmod(self.queries, queries)
        computing = full * self._step(sizes, queries, told) + (
            self._step(sizes, rest, told) if rest else 0.0
        )
        size, moved = ELEMENT_BYTES[self.kind], ELEMENT_BYTES[self.form.k.dtype]
        a_slice, a_block = keys * (self.d + self.v) * moved, queries * (self.d + self.v) * moved
        passed = self.queries * ((self.d + self.v) * moved + self.d * size / cores)
        passed += sum(self.queries * keys * ELEMENT_BYTES[o.value.dtype] for o in self.masks)
        moving = (2 * a_slice + passed) / rate  # of one batch entry
        ends, waiting = (a_slice + a_block) / rate + a_slice / last_rate, 0.0
        if cores > 1:
            moving += 2 * self.queries * self.d * size / told
            # The partial dQ of the last block are added up after all have been stored.
            part = queries * self.d * size
            ends += self.machine.barrier_cycles + 2 * part / told + part / cores / last_rate
            # The statistics of the next entry's first rows are stored after this entry's gradients.
            waiting = (entries - 1) * max(0.0, a_slice / rate - self._scores(keys, queries))
        found = (
            overlapped(entries * computing, self.entries / busy * moving - ends) + ends + waiting
        )
        if slots == 1:  # the next slice is loaded after the last products with this one
            found += (entries - 1) * max(
                0.0, (a_slice + a_block) / rate - 2 * self._product(keys, self.d, queries)
            )
        return float(found)

    def _exchange_rate(self, sizes: CoreGroupSizes, busy: int) -> float:
        """Return the bytes per cycle that a core of ``busy`` groups exchanges.

        The workspace of a kernel is in GSM if it fits, otherwise in DDR.
        """
        needed = sum(
            ELEMENT_BYTES[kind] * count for kind, count in group_workspace(self.form, sizes)
        )
        if needed <= self.machine.gsm_bytes:
            return float(self.machine.gsm_bytes_per_cycle / (busy * sizes.cores))
        return cost_rules.bytes_per_cycle(self.machine, busy * sizes.cores)

    def held(self, sizes: CoreGroupSizes) -> int:
        """Return a lower bound of the bytes of AM, to reject candidates before building tiles."""
        keys, queries, *_, slots = sizes
        size, moved, rows = (
            ELEMENT_BYTES[self.kind],
            ELEMENT_BYTES[self.form.k.dtype],
            self.d + self.v,
        )
        return (
            2 * keys * queries * size
            + keys * rows * (slots * moved + size)
            + 3 * queries * rows * moved
        )

    def _product(self, m: int, n: int, k: int) -> float:
        return float(cost_rules.outer_cycles(self.machine, self.kind, m, n, k))

    def _scores(self, keys: int, queries: int) -> float:
        """Return the cycles of the scores of a block and of the products of their gradients."""
        found = self._product(keys, queries, self.d) + self._product(keys, queries, self.v)
        return found + float(
            cost_rules.transpose_cycles(self.machine, self.kind, self.d + self.v, queries)
        )

    def _step(self, sizes: CoreGroupSizes, queries: int, told: float) -> float:
        """Return the cycles of one block of queries; ``told``: exchanged bytes per cycle."""
        machine, (keys, _, cores, *_), d, v = self.machine, sizes, self.d, self.v
        found = self._scores(keys, queries)
        found += (
            self._product(queries, d, keys)
            + self._product(keys, d, queries)
            + self._product(keys, v, queries)
        )
        found += sum(
            float(cost_rules.transpose_cycles(machine, o.value.dtype, keys, queries))
            for o in self.turned
        )
        vectors = cost_rules.pieces(queries, machine.lanes(self.kind))
        per_vector = (
            1
            + self.computed
            + sum(max(2.0, count / machine.fma_units) for count in self.operations)
        )
        found += keys * vectors * per_vector + STARTED[self.kind]
        if cores > 1:
            rows = 3 * ELEMENT_BYTES[self.kind] * cores * queries
            found += (
                machine.barrier_cycles + 6 * machine.dma_latency + rows / told + STARTED[self.kind]
            )
            found += cost_rules.pieces(queries * d, machine.lanes(self.kind))
        return found


def _operations(nodes: list[Node]) -> int:
    return sum(x.op.startswith(("arith.", "math.")) for x in nodes)


def overlapped(computing: float, moving: float) -> float:
    """Return the time of compute and DMA in parallel; if balanced, each sometimes waits."""
    return float((computing**4 + moving**4) ** 0.25)
