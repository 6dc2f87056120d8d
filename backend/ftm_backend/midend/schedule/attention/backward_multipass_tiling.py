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
    team_plan,
)
from ftm_backend.midend.schedule.attention.forward_tiling import EXPONENTIAL, STARTED, nodes_in
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["MultipassTiling", "backward_plan", "fits"]

Phases = type[QueryPass] | type[SlopePass] | type[KeyPass]

_ROOM = 0.98
"""Fraction of AM that is planned for; the alignment of tiles takes the rest."""


@dataclass(frozen=True)
class MultipassTiling:
    """Block sizes of each pass, and modelled cycles of the busiest core.

    ``team`` is set if one pass with resident keys is cheaper; see ``backward_resident_keys``.
    """

    sizes: tuple[PassSizes, ...]
    cycles: float
    team: CoreGroupSizes | None = None


def backward_plan(
    form: AttentionBackwardPattern, machine: MachineParameters, cores: int
) -> MultipassTiling | None:
    """Return the cheapest plan for ``cores`` cores; None if no blocks fit on chip."""
    cycles, sizes = 0.0, []
    for phase in passes_of(form):
        found = _cheapest(form, machine, phase)
        if found is None:
            return None
        cycles += found[0] + machine.barrier_cycles
        sizes.append(found[1])
    team = team_plan(form, machine, cores)
    return (
        MultipassTiling(tuple(sizes), cycles)
        if team is None or team[0] >= cycles
        else MultipassTiling(tuple(sizes), *team)
    )


def fits(form: AttentionBackwardPattern, machine: MachineParameters) -> bool:
    """Whether every pass has block sizes that fit on chip."""
    return all(
        any(_fits(form, machine, phase, sizes) for sizes in sorted(_sizes(form, machine, phase)))
        for phase in passes_of(form)
    )


def _cheapest(
    form: AttentionBackwardPattern, machine: MachineParameters, phase: Phases
) -> tuple[float, PassSizes] | None:
    costs = _Costs(form, machine, phase)
    candidates = sorted((costs.of(sizes), sizes) for sizes in _sizes(form, machine, phase))
    return next((x for x in candidates if _fits(form, machine, phase, x[1])), None)


def _sizes(
    form: AttentionBackwardPattern, machine: MachineParameters, phase: Phases
) -> Iterator[PassSizes]:
    _, m, n, d, v = form.axes
    still, walked = (form.extents[a] for a in ((n, m) if phase is KeyPass else (m, n)))
    widths, height = machine.mm_widths(form.accumulator), machine.mm_rows
    blocks = [cost_rules.pieces(walked, count) for count in (1, 2, 3, 4)]
    blocks += [min(walked, heights * height) for heights in (1, 4, 8, 12, 16, 24, 32)]
    factors = (form.q, form.grad) if phase is KeyPass else (form.k, form.v)
    plain = all(x.op == "in" for x in factors)
    moved = 2 * (form.extents[d] + form.extents[v]) * ELEMENT_BYTES[form.k.dtype]
    counts = (1, 2, 3, *(cost_rules.pieces(still, n * width) for width in widths for n in (1, 2)))
    sizes = (machine.lanes(form.accumulator), *(n * width for width in widths for n in (1, 2)))
    stills = (*(min(still, n) for n in sizes), *(cost_rules.pieces(still, n) for n in counts))
    for block in dict.fromkeys(blocks):
        space = "sm" if plain and block * moved <= machine.sm_bytes else "am"
        for columns in dict.fromkeys(stills):
            if columns <= 2 * widths[0]:
                yield PassSizes(columns, block, space)


def _fits(
    form: AttentionBackwardPattern, machine: MachineParameters, phase: Phases, sizes: PassSizes
) -> bool:
    """Whether all tiles of the pass fit at once."""
    b = TileBuilder("sizes")
    phase(form, b, sizes, [Value(form.accumulator, (1,))] * 3)
    held = {
        space: sum(t.bytes for t in b.kernel.tiles if t.space == space) for space in ("am", "sm")
    }
    return all(total <= _ROOM * machine.scratchpad_bytes(space) for space, total in held.items())


class _Costs:
    """Cycles of a pass on the busiest core, as a function of its block sizes."""

    def __init__(
        self, form: AttentionBackwardPattern, machine: MachineParameters, phase: Phases
    ) -> None:
        """Count the operations of the pass's maps."""
        self.form, self.machine = form, machine
        batch, m, n, d, v = form.axes
        self.first, self.last = phase is QueryPass, phase is KeyPass
        self.axes = (n, m) if self.last else (m, n)
        self.d, self.v = form.extents[d], form.extents[v]
        self.batch = prod(form.extents[a] for a in batch)
        self.sums = (
            (self.d, self.v)
            if self.last
            else (self.d,)
            if not self.first
            else (self.d, self.d)
            if form.linear
            else ()
        )
        nodes = (
            (form.along, *(form.linear or ()))
            if self.first
            else (form.slope, form.weight)
            if self.last
            else (form.slope,)
        )
        self.operations = EXPONENTIAL[form.accumulator] + sum(
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
        still, walked = (self.form.extents[axis] for axis in self.axes)
        blocks = cost_rules.pieces(still, sizes.still)
        units = self.batch * blocks
        most = cost_rules.pieces(units, machine.cores)
        computing = (
            most / blocks * _over(still, sizes.still, lambda s: self._unit(s, walked, sizes.walked))
        )
        rate = cost_rules.bytes_per_cycle(machine, min(units, machine.cores))
        moved = ELEMENT_BYTES[self.form.k.dtype]
        held = sizes.still * (rows + (rows if self.last else self.d)) * moved
        passed = walked * (
            rows * moved + sum(sizes.still * ELEMENT_BYTES[o.value.dtype] for o in self.masks)
        )
        fetched = (sizes.still + min(walked, sizes.walked)) * rows * moved
        return overlapped(computing, most * (held + passed) / rate) + fetched / rate

    def _unit(self, s: int, walked: int, w: int) -> float:
        """Return the cycles of one resident block, over all blocks of the other sequence."""
        turns = self.d + self.v + (sum(self.sums) if self.last else self.d if self.sums else 0)
        ends = cost_rules.transpose_cycles(self.machine, self.form.accumulator, turns, s) + 3 * sum(
            self.sums
        ) * self._vectors(s)
        return _over(walked, w, lambda w: self._step(s, w, walked)) + float(ends)

    def _step(self, s: int, w: int, walked: int) -> float:
        """Return the cycles of one block of the other sequence for one resident block."""
        machine, kind, vectors = self.machine, self.form.accumulator, self._vectors(s)
        found = sum(
            cost_rules.outer_cycles(machine, kind, w, s, inner) for inner in (self.d, self.v)
        )
        found += sum(cost_rules.outer_cycles(machine, kind, inner, s, w) for inner in self.sums)
        found += sum(
            cost_rules.transpose_cycles(machine, o.value.dtype, w, s)
            for o in self.masks
            if o.index.coeffs[self.axes[1]] == 1
        )
        found += w * vectors * (1 + self.first + self.operations / machine.fma_units)
        found += STARTED[kind] / (1 if self.first else 2)
        return float(found + (1.5 * sum(self.sums) * vectors if self.first and walked > w else 0))

    def _vectors(self, s: int) -> int:
        return int(cost_rules.pieces(s, self.machine.lanes(self.form.accumulator)))


def _over(extent: int, size: int, cost: Callable[[int], float]) -> float:
    return extent // size * cost(size) + (cost(extent % size) if extent % size else 0.0)


def _read(nodes: tuple[Node, ...]) -> list[Node]:
    return list({id(x): x for node in nodes for x in nodes_in(node)}.values())
