"""Sizes of the blocks of attention's gradients, by the machine's rules, for each of the phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from ftm_backend.linalg.ir import Node, Value, walk
from ftm_backend.machine import rules
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.attentions.backward_exchange import TeamSizes
from ftm_backend.midend.attentions.backward_form import AttentionBackward
from ftm_backend.midend.attentions.backward_phase import Sizes
from ftm_backend.midend.attentions.backward_phases import Keys, Queries, Slopes, phases_of
from ftm_backend.midend.attentions.backward_team_plan import overlapped, team_plan
from ftm_backend.midend.attentions.plan import EXPONENTIAL, STARTED, nodes_in
from ftm_backend.tile.builder import TileBuilder

__all__ = ["BackwardPlan", "backward_plan", "fits"]

Phases = type[Queries] | type[Slopes] | type[Keys]

_ROOM = 0.98
"""The part of AM that is planned for; tiles are placed on boundaries of vectors."""


@dataclass(frozen=True)
class BackwardPlan:
    """Sizes of the blocks of each phase, and what the program should cost the busiest core.

    team: what is held in place of phases, where there are as many cores as that takes.
    """

    sizes: tuple[Sizes, ...]
    cycles: float
    team: TeamSizes | None = None


def backward_plan(form: AttentionBackward, machine: MachineParameters, cores: int) -> BackwardPlan | None:
    """The cheapest plan for so many cores; None if no blocks fit on chip."""
    cycles, sizes = 0.0, []
    for phase in phases_of(form):
        found = _cheapest(form, machine, phase)
        if found is None:
            return None
        cycles += found[0] + machine.barrier_cycles
        sizes.append(found[1])
    team = team_plan(form, machine, cores)
    return BackwardPlan(tuple(sizes), cycles) if team is None or team[0] >= cycles else BackwardPlan(tuple(sizes), *team)


def fits(form: AttentionBackward, machine: MachineParameters) -> bool:
    """Whether there is a plan."""
    return all(any(_fits(form, machine, phase, sizes) for sizes in sorted(_sizes(form, machine, phase))) for phase in phases_of(form))


def _cheapest(form: AttentionBackward, machine: MachineParameters, phase: Phases) -> tuple[float, Sizes] | None:
    costs = _Costs(form, machine, phase)
    candidates = sorted((costs.of(sizes), sizes) for sizes in _sizes(form, machine, phase))
    return next((x for x in candidates if _fits(form, machine, phase, x[1])), None)


def _sizes(form: AttentionBackward, machine: MachineParameters, phase: Phases) -> Iterator[Sizes]:
    _, m, n, d, v = form.axes
    still, walked = (form.extents[a] for a in ((n, m) if phase is Keys else (m, n)))
    widths, height = machine.mm_widths(form.accumulator), machine.mm_rows
    blocks = [rules.pieces(walked, count) for count in (1, 2, 3, 4)]
    blocks += [min(walked, heights * height) for heights in (1, 4, 8, 12, 16, 24, 32)]
    factors = (form.q, form.grad) if phase is Keys else (form.k, form.v)
    plain = all(x.op == "in" for x in factors)
    moved = 2 * (form.extents[d] + form.extents[v]) * ELEMENT_BYTES[form.k.dtype]
    counts = (1, 2, 3, *(rules.pieces(still, n * width) for width in widths for n in (1, 2)))
    sizes = (machine.lanes(form.accumulator), *(n * width for width in widths for n in (1, 2)))
    stills = (*(min(still, n) for n in sizes), *(rules.pieces(still, n) for n in counts))
    for block in dict.fromkeys(blocks):
        space = "sm" if plain and block * moved <= machine.sm_bytes else "am"
        for columns in dict.fromkeys(stills):
            if columns <= 2 * widths[0]:
                yield Sizes(columns, block, space)


def _fits(form: AttentionBackward, machine: MachineParameters, phase: Phases, sizes: Sizes) -> bool:
    """Whether all tiles of the phase fit at once."""
    b = TileBuilder("sizes")
    phase(form, b, sizes, [Value(form.accumulator, (1,))] * 3)
    held = {space: sum(t.bytes for t in b.kernel.tiles if t.space == space) for space in ("am", "sm")}
    return all(total <= _ROOM * machine.scratchpad_bytes(space) for space, total in held.items())


class _Costs:
    """What a phase should cost the busiest core, by its sizes."""

    def __init__(self, form: AttentionBackward, machine: MachineParameters, phase: Phases) -> None:
        self.form, self.machine = form, machine
        batch, m, n, d, v = form.axes
        self.first, self.last = phase is Queries, phase is Keys
        self.axes = (n, m) if self.last else (m, n)
        self.d, self.v = form.extents[d], form.extents[v]
        self.batch = prod(form.extents[a] for a in batch)
        self.sums = (self.d, self.v) if self.last else (self.d,) if not self.first else (self.d, self.d) if form.linear else ()
        nodes = (form.along, *(form.linear or ())) if self.first else (form.slope, form.weight) if self.last else (form.slope,)
        self.operations = EXPONENTIAL[form.accumulator] + sum(x.op.startswith(("arith.", "math.")) for x in walk(nodes))
        self.masks = [x.payload for x in _read(nodes) if x.payload.index.coeffs[m] and x.payload.index.coeffs[n]]

    def of(self, sizes: Sizes) -> float:
        """Cycles."""
        machine, rows = self.machine, self.d + self.v
        still, walked = (self.form.extents[axis] for axis in self.axes)
        blocks = rules.pieces(still, sizes.still)
        units = self.batch * blocks
        most = rules.pieces(units, machine.cores)
        computing = most / blocks * _over(still, sizes.still, lambda s: self._unit(s, walked, sizes.walked))
        rate = rules.bytes_per_cycle(machine, min(units, machine.cores))
        moved = ELEMENT_BYTES[self.form.k.dtype]
        held = sizes.still * (rows + (rows if self.last else self.d)) * moved
        passed = walked * (rows * moved + sum(sizes.still * ELEMENT_BYTES[o.value.dtype] for o in self.masks))
        fetched = (sizes.still + min(walked, sizes.walked)) * rows * moved
        return overlapped(computing, most * (held + passed) / rate) + fetched / rate

    def _unit(self, s: int, walked: int, w: int) -> float:
        """All of what is walked for one block of what is held still."""
        turns = self.d + self.v + (sum(self.sums) if self.last else self.d if self.sums else 0)
        ends = rules.transpose_cycles(self.machine, self.form.accumulator, turns, s) + 3 * sum(self.sums) * self._vectors(s)
        return _over(walked, w, lambda w: self._step(s, w, walked)) + float(ends)

    def _step(self, s: int, w: int, walked: int) -> float:
        """One block of what is walked for one of what is held still."""
        machine, kind, vectors = self.machine, self.form.accumulator, self._vectors(s)
        found = sum(rules.outer_cycles(machine, kind, w, s, inner) for inner in (self.d, self.v))
        found += sum(rules.outer_cycles(machine, kind, inner, s, w) for inner in self.sums)
        found += sum(rules.transpose_cycles(machine, o.value.dtype, w, s) for o in self.masks if o.index.coeffs[self.axes[1]] == 1)
        found += w * vectors * (1 + self.first + self.operations / machine.fma_units)
        found += STARTED[kind] / (1 if self.first else 2)
        return float(found + (1.5 * sum(self.sums) * vectors if self.first and walked > w else 0))

    def _vectors(self, s: int) -> int:
        return int(rules.pieces(s, self.machine.lanes(self.form.accumulator)))


def _over(extent: int, size: int, cost: Callable[[int], float]) -> float:
    return extent // size * cost(size) + (cost(extent % size) if extent % size else 0.0)


def _read(nodes: tuple[Node, ...]) -> list[Node]:
    return list({id(x): x for node in nodes for x in nodes_in(node)}.values())
