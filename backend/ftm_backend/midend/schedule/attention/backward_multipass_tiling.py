"""Block sizes of attention's backward in several passes, chosen by the cost model.

``QueryPass`` computes row statistics and dQ, ``KeyPass`` dK and dV. ``SlopePass`` computes dQ if it
needs the scores a second time. Each pass keeps a block of one sequence resident and iterates over
blocks of the other one. The sizes of each pass are chosen independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from ftm_backend.ir.linalg.function import Node, Value, walk
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.lowering.attention.backward_exchange import CoreGroupSizes
from ftm_backend.midend.lowering.attention.backward_multipass import (
    KeyPass,
    QueryPass,
    SlopePass,
    passes_of,
)
from ftm_backend.midend.lowering.attention.backward_pass import PassSizes
from ftm_backend.midend.schedule.attention.backward_resident_keys_tiling import (
    overlapped,
    resident_keys_plan,
)
from ftm_backend.midend.schedule.attention.forward_tiling import (
    EXPONENTIAL_OPERATIONS,
    MAP_STARTUP_CYCLES,
    nodes_in,
)
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["MultipassTiling", "backward_plan", "fits"]

PassType = type[QueryPass] | type[SlopePass] | type[KeyPass]

_USABLE_AM = 0.98
"""Fraction of AM that is planned for; the alignment of tiles takes the rest."""


@dataclass(frozen=True)
class MultipassTiling:
    """Block sizes of each pass, and modelled cycles of the busiest core.

    ``group`` is set if one pass with resident keys is cheaper; see ``backward_resident_keys``.
    """

    sizes: tuple[PassSizes, ...]
    cycles: float
    group: CoreGroupSizes | None = None


def backward_plan(
    pattern: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> MultipassTiling | None:
    """Return the cheapest plan for ``cores`` cores; None if no blocks fit on chip."""
    cycles, sizes = 0.0, []
    for pass_type in passes_of(pattern):
        best = _cheapest(pattern, machine, pass_type)
        if best is None:
            return None
        cycles += best[0] + machine.barrier_cycles
        sizes.append(best[1])
    group = resident_keys_plan(pattern, machine, cores)
    return (
        MultipassTiling(tuple(sizes), cycles)
        if group is None or group[0] >= cycles
        else MultipassTiling(tuple(sizes), *group)
    )


def fits(pattern: AttentionBackwardPattern, machine: MachineParameters) -> bool:
    """Whether every pass has block sizes that fit on chip."""
    return all(
        any(
            _fits(pattern, machine, pass_type, sizes)
            for sizes in sorted(_sizes(pattern, machine, pass_type))
        )
        for pass_type in passes_of(pattern)
    )


def _cheapest(
    pattern: AttentionBackwardPattern, machine: MachineParameters, pass_type: PassType
) -> tuple[float, PassSizes] | None:
    costs = _Costs(pattern, machine, pass_type)
    candidates = sorted((costs.of(sizes), sizes) for sizes in _sizes(pattern, machine, pass_type))
    return next((x for x in candidates if _fits(pattern, machine, pass_type, x[1])), None)


def _sizes(
    pattern: AttentionBackwardPattern, machine: MachineParameters, pass_type: PassType
) -> Iterator[PassSizes]:
    _, m, n, d, v = pattern.axes
    resident, passing = (pattern.extents[a] for a in ((n, m) if pass_type is KeyPass else (m, n)))
    widths, height = machine.mm_widths(pattern.accumulator), machine.mm_rows
    blocks = [cost_rules.pieces(passing, count) for count in (1, 2, 3, 4)]
    blocks += [min(passing, heights * height) for heights in (1, 4, 8, 12, 16, 24, 32)]
    operand_bytes = (pattern.q, pattern.grad) if pass_type is KeyPass else (pattern.k, pattern.v)
    plain = all(x.op == "in" for x in operand_bytes)
    moved = 2 * (pattern.extents[d] + pattern.extents[v]) * ELEMENT_BYTES[pattern.k.dtype]
    counts = (
        1,
        2,
        3,
        *(cost_rules.pieces(resident, n * width) for width in widths for n in (1, 2)),
    )
    sizes = (machine.lanes(pattern.accumulator), *(n * width for width in widths for n in (1, 2)))
    resident_sizes = (
        *(min(resident, n) for n in sizes),
        *(cost_rules.pieces(resident, n) for n in counts),
    )
    for block in dict.fromkeys(blocks):
        space = "sm" if plain and block * moved <= machine.sm_bytes else "am"
        for columns in dict.fromkeys(resident_sizes):
            if columns <= 2 * widths[0]:
                yield PassSizes(columns, block, space)


def _fits(
    pattern: AttentionBackwardPattern,
    machine: MachineParameters,
    pass_type: PassType,
    sizes: PassSizes,
) -> bool:
    """Whether all tiles of the pass fit at once."""
    b = TileBuilder("sizes")
    pass_type(pattern, b, sizes, [Value(pattern.accumulator, (1,))] * 3)
    held = {
        space: sum(t.bytes for t in b.kernel.tiles if t.space == space) for space in ("am", "sm")
    }
    return all(
        total <= _USABLE_AM * machine.scratchpad_bytes(space) for space, total in held.items()
    )


class _Costs:
    """Cycles of a pass on the busiest core, as a function of its block sizes."""

    def __init__(
        self, pattern: AttentionBackwardPattern, machine: MachineParameters, pass_type: PassType
    ) -> None:
        """Count the operations of the pass's maps."""
        self.pattern, self.machine = pattern, machine
        batch, m, n, d, v = pattern.axes
        self.first, self.last = pass_type is QueryPass, pass_type is KeyPass
        self.axes = (n, m) if self.last else (m, n)
        self.d, self.v = pattern.extents[d], pattern.extents[v]
        self.batch = prod(pattern.extents[a] for a in batch)
        self.sums = (
            (self.d, self.v)
            if self.last
            else (self.d,)
            if not self.first
            else (self.d, self.d)
            if pattern.linear
            else ()
        )
        nodes = (
            (pattern.along, *(pattern.linear or ()))
            if self.first
            else (pattern.slope, pattern.weight)
            if self.last
            else (pattern.slope,)
        )
        self.operations = EXPONENTIAL_OPERATIONS[pattern.accumulator] + sum(
            x.op.startswith(("arith.", "math.")) for x in walk(nodes)
        )
        self.masks = [
            x.payload
            for x in _read(nodes)
            if x.payload.index.coeffs[m] and x.payload.index.coeffs[n]
        ]

    def of(self, sizes: PassSizes) -> float:
        """Return the cycles with these sizes."""
        machine, rows = self.machine, self.d + self.v
        resident, passing = (self.pattern.extents[axis] for axis in self.axes)
        blocks = cost_rules.pieces(resident, sizes.resident)
        units = self.batch * blocks
        most = cost_rules.pieces(units, machine.cores)
        computing = (
            most
            / blocks
            * _over(resident, sizes.resident, lambda s: self._unit(s, passing, sizes.passing))
        )
        rate = cost_rules.bytes_per_cycle(machine, min(units, machine.cores))
        moved = ELEMENT_BYTES[self.pattern.k.dtype]
        held = sizes.resident * (rows + (rows if self.last else self.d)) * moved
        passing_bytes = passing * (
            rows * moved + sum(sizes.resident * ELEMENT_BYTES[o.value.dtype] for o in self.masks)
        )
        fetched = (sizes.resident + min(passing, sizes.passing)) * rows * moved
        return overlapped(computing, most * (held + passing_bytes) / rate) + fetched / rate

    def _unit(self, s: int, passing: int, w: int) -> float:
        """Return the cycles of one resident block, over all blocks of the other sequence."""
        turns = self.d + self.v + (sum(self.sums) if self.last else self.d if self.sums else 0)
        ends = cost_rules.transpose_cycles(
            self.machine, self.pattern.accumulator, turns, s
        ) + 3 * sum(self.sums) * self._vectors(s)
        return _over(passing, w, lambda w: self._step(s, w, passing)) + float(ends)

    def _step(self, s: int, w: int, passing: int) -> float:
        """Return the cycles of one block of the other sequence for one resident block."""
        machine, acc_dtype, vectors = self.machine, self.pattern.accumulator, self._vectors(s)
        cycles = sum(
            cost_rules.outer_cycles(machine, acc_dtype, w, s, inner) for inner in (self.d, self.v)
        )
        cycles += sum(
            cost_rules.outer_cycles(machine, acc_dtype, inner, s, w) for inner in self.sums
        )
        cycles += sum(
            cost_rules.transpose_cycles(machine, o.value.dtype, w, s)
            for o in self.masks
            if o.index.coeffs[self.axes[1]] == 1
        )
        cycles += w * vectors * (1 + self.first + self.operations / machine.fma_units)
        cycles += MAP_STARTUP_CYCLES[acc_dtype] / (1 if self.first else 2)
        return float(cycles + (1.5 * sum(self.sums) * vectors if self.first and passing > w else 0))

    def _vectors(self, s: int) -> int:
        return int(cost_rules.pieces(s, self.machine.lanes(self.pattern.accumulator)))


def _over(extent: int, size: int, cost: Callable[[int], float]) -> float:
    return extent // size * cost(size) + (cost(extent % size) if extent % size else 0.0)


def _read(nodes: tuple[Node, ...]) -> list[Node]:
    return list({id(x): x for node in nodes for x in nodes_in(node)}.values())
