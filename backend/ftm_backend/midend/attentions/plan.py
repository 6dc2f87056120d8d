"""Sizes of attention's blocks, by the machine's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ftm_backend.linalg.ir import Node, walk
from ftm_backend.machine import rules
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.attentions.form import Attention

__all__ = ["EXPONENTIAL", "STARTED", "AttentionPlan", "attention_plan", "nodes_in", "overlapped"]

_MOST_PARTS = 8
"""Blocks of queries that a unit has at most."""

EXPONENTIAL = {"f32": 26, "f64": 32}
"""Operations of a multiply-add pipe for each score: the exponential of a difference, the sum."""

STARTED = {"f32": 330, "f64": 400}
"""Cycles of a step in which its maps wait for their first vectors: two of them for exponentials."""

_ROOM = 0.95
"""The part of AM that is planned for; rows of numbers and roundings take some more."""


@dataclass(frozen=True)
class AttentionPlan:
    """``m`` and ``n``: sizes of the blocks of scores, which are held as n x m.  parts: blocks of queries of a unit.
    space: where K and V wait to be broadcast from.  units: of all cores.  cycles: what it should cost the busiest core."""

    m: int
    n: int
    parts: int
    space: str
    units: int
    cycles: float


@dataclass(frozen=True)
class _Facts:
    """What a plan depends on, so that equal attentions are planned once.

    extents: of all axes.  kind, dtype: of the accumulator and of keys and values; plain: these are elements as they lie in memory.
    wide: of what is read for each score, the dtype and whether it lies along n.  rounded: weights are of another type
    than the accumulator.  operations: on each score.
    """

    extents: tuple[int, ...]
    kind: str
    dtype: str
    plain: bool
    wide: tuple[tuple[str, bool], ...]
    rounded: bool
    operations: int


def attention_plan(form: Attention, machine: MachineParameters) -> AttentionPlan | None:
    """The cheapest plan; None if no blocks fit on chip."""
    _, m, n, _, _ = form.axes
    nodes = walk([form.score, form.weight])
    reads = [(x.payload.value.dtype, x.payload.index.coeffs) for x in nodes if x.op == "in"]
    facts = _Facts(
        form.extents,
        form.accumulator,
        form.k.dtype,
        form.k.op == form.v.op == "in",
        tuple((dtype, steps[n] == 1) for dtype, steps in reads if steps[n] and steps[m]),
        form.weight.dtype != form.accumulator,
        EXPONENTIAL[form.accumulator] + sum(x.op.startswith(("arith.", "math.")) for x in nodes),
    )
    return _cheapest(facts, machine)


@lru_cache(maxsize=256)
def _cheapest(facts: _Facts, machine: MachineParameters) -> AttentionPlan | None:
    found = [_cost(facts, machine, *sizes) for sizes in _sizes(facts, machine)]
    return min((p for p in found if p is not None), key=lambda p: p.cycles, default=None)


def _sizes(facts: _Facts, machine: MachineParameters) -> Iterator[tuple[int, int, int]]:
    rows, columns = facts.extents[-4:-2]
    widths, height = machine.mm_widths(facts.kind), machine.mm_rows
    blocks = [rules.pieces(columns, count) for count in (1, 2, 3, 4)]
    blocks += [min(columns, heights * height) for heights in (4, 8, 12, 16, 24, 32)]
    for n_size in dict.fromkeys(blocks):
        for m_size in dict.fromkeys((*(min(rows, width) for width in widths), *(rules.pieces(rows, count) for count in (1, 2, 3)))):
            if m_size <= 2 * widths[0]:
                yield from ((m_size, n_size, parts) for parts in range(1, min(_MOST_PARTS, rules.pieces(rows, m_size)) + 1))


def _cost(facts: _Facts, machine: MachineParameters, m: int, n: int, parts: int) -> AttentionPlan | None:
    *batch, rows, columns, d, v = facts.extents
    kind, size, moved = facts.kind, ELEMENT_BYTES[facts.kind], ELEMENT_BYTES[facts.dtype]
    factors = 2 * n * (d + v) * moved
    space = "sm" if facts.plain and factors <= machine.sm_bytes else "am"
    held = n * m * (2 * size + sum(3 * ELEMENT_BYTES[dtype] for dtype, _ in facts.wide)) - n * m * size * (not facts.rounded)
    held += m * size * (2 * parts * d + d + parts * v + 2 * v) + (0 if space == "sm" else factors + (0 if facts.plain else factors // 2))
    if held > _ROOM * machine.am_bytes:
        return None
    lanes = machine.lanes(kind)

    def step(m: int, n: int) -> float:
        """One block of keys for one of queries."""
        vectors = rules.pieces(m, lanes)
        found = rules.outer_cycles(machine, kind, n, m, d) + rules.outer_cycles(machine, kind, v, m, n)
        found += 1.5 * v * vectors * (columns > n) + STARTED[kind]  # two vectors are loaded and one is stored through two ports
        found += sum(rules.transpose_cycles(machine, dtype, n, m) for dtype, along in facts.wide if along)
        return float(found + n * vectors * (1 + facts.operations / machine.fma_units))

    def over(extent: int, size: int, cost: Callable[[int], float]) -> float:
        return extent // size * cost(size) + (cost(extent % size) if extent % size else 0.0)

    blocks = rules.pieces(rows, m)
    entry = over(rows, m, lambda m: over(columns, n, lambda n: step(m, n)) + rules.transpose_cycles(machine, kind, d + v, m))
    entry_units = rules.pieces(blocks, parts)
    units = prod(batch) * entry_units
    most = rules.pieces(units, machine.cores)
    rate = rules.bytes_per_cycle(machine, min(units, machine.cores))
    fetched = columns * (d + v) * moved
    times = rules.pieces(most, entry_units) if columns <= n else most
    bytes_moved = times * fetched + most * rows / entry_units * (
        (d + v) * size + sum(columns * ELEMENT_BYTES[dtype] for dtype, _ in facts.wide)
    )
    ends = (m * (d + v) * size + n * d * moved) / rate
    ends += most * (parts - 1) * max(0.0, m * d * size / rate - step(m, n))  # queries of all parts are fetched at once
    cycles = overlapped(most * entry / entry_units, bytes_moved / rate) + ends
    return AttentionPlan(m, n, parts, space, units, cycles)


def overlapped(computing: float, moving: float) -> float:
    """Time of both at once: where they take alike long, each waits for the other now and then."""
    return float((computing**4 + moving**4) ** 0.25)


def nodes_in(node: Node) -> list[Node]:
    """The tensors' elements that a node is computed from."""
    return [x for x in walk([node]) if x.op == "in"]
