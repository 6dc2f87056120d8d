"""Sizes of the blocks of attention's gradients, by the machine's rules, for each of the phases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ftm_backend.linalg.ir import Node, Value, walk
from ftm_backend.machine import rules
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.attention_backward_form import AttentionBackward
from ftm_backend.midend.attention_backward_phase import Sizes
from ftm_backend.midend.attention_backward_phases import Keys, Queries, Slopes, phases_of
from ftm_backend.midend.attention_plan import EXPONENTIAL, nodes_in, overlapped
from ftm_backend.tile.builder import TileBuilder

__all__ = ["BackwardPlan", "backward_plan"]

Phases = type[Queries] | type[Slopes] | type[Keys]

_ROOM = 0.98
"""The part of AM that is planned for; tiles are placed on boundaries of vectors."""


@dataclass(frozen=True)
class BackwardPlan:
    """Sizes of the blocks of each phase, and what they should cost the busiest core."""

    sizes: tuple[Sizes, ...]
    cycles: float


def backward_plan(form: AttentionBackward, machine: MachineParameters) -> BackwardPlan | None:
    """The cheapest plan; None if no blocks fit on chip."""
    cycles, sizes = 0.0, []
    for phase in phases_of(form):
        found = _cheapest(form, machine, phase)
        if found is None:
            return None
        cycles += found[0] + machine.barrier_cycles
        sizes.append(found[1])
    return BackwardPlan(tuple(sizes), cycles)


def _cheapest(form: AttentionBackward, machine: MachineParameters, phase: Phases) -> tuple[float, Sizes] | None:
    candidates = sorted((_cost(form, machine, phase, sizes), sizes) for sizes in _sizes(form, machine, phase))
    return next((x for x in candidates if _fits(form, machine, phase, x[1])), None)


def _sizes(form: AttentionBackward, machine: MachineParameters, phase: Phases) -> Iterator[Sizes]:
    _, m, n, d, v = form.axes
    still, walked = (form.extents[a] for a in ((n, m) if phase is Keys else (m, n)))
    width, height = machine.mm_columns(form.accumulator), machine.mm_rows
    blocks = [rules.pieces(walked, count) for count in (1, 2, 3, 4)]
    blocks += [min(walked, heights * height) for heights in (1, 4, 8, 12, 16, 24, 32)]
    factors = (form.q, form.grad) if phase is Keys else (form.k, form.v)
    plain = all(x.op == "in" for x in factors)
    moved = 2 * (form.extents[d] + form.extents[v]) * ELEMENT_BYTES[form.k.dtype]
    counts = (1, 2, 3, rules.pieces(still, width), rules.pieces(still, 2 * width))
    stills = (*(min(still, n) for n in (machine.lanes(form.accumulator), width, 2 * width)), *(rules.pieces(still, n) for n in counts))
    for block in dict.fromkeys(blocks):
        space = "sm" if plain and block * moved <= machine.sm_bytes else "am"
        for columns in dict.fromkeys(stills):
            if columns <= 2 * width:
                yield Sizes(columns, block, space)


def _fits(form: AttentionBackward, machine: MachineParameters, phase: Phases, sizes: Sizes) -> bool:
    """Whether all tiles of the phase fit at once."""
    b = TileBuilder("sizes")
    phase(form, b, sizes, [Value(form.accumulator, (1,))] * 3)
    held = {space: sum(t.bytes for t in b.kernel.tiles if t.space == space) for space in ("am", "sm")}
    return all(total <= _ROOM * machine.scratchpad_bytes(space) for space, total in held.items())


def _cost(form: AttentionBackward, machine: MachineParameters, phase: Phases, sizes: Sizes) -> float:
    batch, m_axis, n_axis, d_axis, v_axis = form.axes
    kind, first, last = form.accumulator, phase is Queries, phase is Keys
    still, walked = (form.extents[a] for a in ((n_axis, m_axis) if last else (m_axis, n_axis)))
    d, v = form.extents[d_axis], form.extents[v_axis]
    sums = (d, v) if last else (d,) if not first else (d, d) if form.linear else ()
    lanes, moved = machine.lanes(kind), ELEMENT_BYTES[form.k.dtype]
    nodes = (form.along, *(form.linear or ())) if first else (form.slope, form.weight) if last else (form.slope,)
    operations = EXPONENTIAL + sum(x.op.startswith(("arith.", "math.")) for x in walk(nodes))
    masks = [x.payload for x in _read(nodes) if x.payload.index.coeffs[m_axis] and x.payload.index.coeffs[n_axis]]
    turned = m_axis if last else n_axis
    again = sum(sums) if first and walked > sizes.walked else 0

    def step(s: int, w: int) -> float:
        """One block of what is walked for one of what is held still."""
        vectors = rules.pieces(s, lanes)
        found = rules.outer_cycles(machine, kind, w, s, d) + rules.outer_cycles(machine, kind, w, s, v)
        found += sum(rules.outer_cycles(machine, kind, inner, s, w) for inner in sums)
        found += sum(rules.transpose_cycles(machine, w, s) for o in masks if o.index.coeffs[turned] == 1)
        return float(found + w * vectors * (1 + first + operations / machine.fma_units) + again * vectors)

    def over(extent: int, size: int, cost: float, rest: float) -> float:
        return extent // size * cost + (rest if extent % size else 0.0)

    def unit(s: int) -> float:
        turns = d + v + (sum(sums) if last else d if sums else 0)
        ends = rules.transpose_cycles(machine, turns, s) + 3 * sum(sums) * rules.pieces(s, lanes)
        return over(walked, sizes.walked, step(s, sizes.walked), step(s, walked % sizes.walked)) + ends

    blocks = rules.pieces(still, sizes.still)
    units = prod(form.extents[a] for a in batch) * blocks
    most = rules.pieces(units, machine.cores)
    computing = most / blocks * over(still, sizes.still, unit(sizes.still), unit(still % sizes.still))
    rate = rules.bytes_per_cycle(machine, min(units, machine.cores))
    held = sizes.still * (d + v + (d + v if last else d)) * moved
    passed = walked * ((d + v) * moved + sum(sizes.still * ELEMENT_BYTES[o.value.dtype] for o in masks))
    fetched = sizes.still * (d + v) * moved + min(walked, sizes.walked) * (d + v) * moved
    return overlapped(computing, most * (held + passed) / rate) + fetched / rate


def _read(nodes: tuple[Node, ...]) -> list[Node]:
    return list({id(x): x for node in nodes for x in nodes_in(node)}.values())
