"""Block sizes of attention's forward (flash attention), chosen by the cost model.

A unit of work is ``parts`` blocks of ``m`` queries of one batch entry. It iterates over blocks of
``n`` keys and keeps a running maximum, sum and result for each query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ftm_backend.ir.linalg.function import Node, walk
from ftm_backend.midend.schedule.attention.match_forward import AttentionPattern
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = [
    "EXPONENTIAL_OPERATIONS",
    "MAP_STARTUP_CYCLES",
    "AttentionTiling",
    "attention_plan",
    "nodes_in",
]

_MAX_PARTS = 8
"""Most blocks of queries of a unit."""

EXPONENTIAL_OPERATIONS = {"f32": 26, "f64": 32}
"""Multiply-add operations per score for ``exp(score - maximum)`` and the running sum."""

MAP_STARTUP_CYCLES = {"f32": 330, "f64": 400}
"""Start-up cycles of the maps of a step: their first vectors wait, twice for exponentials."""

_USABLE_AM = 0.95
"""Fraction of AM that is planned for; row statistics and alignment take the rest."""


@dataclass(frozen=True)
class AttentionTiling:
    """Block sizes of attention's forward.

    Attributes:
        m: Queries of a block.
        n: Keys of a block; a block of scores is stored as n x m.
        parts: Blocks of queries of a unit.
        space: Memory of K and V: ``"sm"`` or ``"am"``.
        units: Units of all cores.
        cycles: Modelled cycles of the busiest core.
    """

    m: int
    n: int
    parts: int
    space: str
    units: int
    cycles: float


@dataclass(frozen=True)
class _Facts:
    """Cache key: all that a plan depends on.

    Attributes:
        extents: Extents of all axes.
        acc_dtype: Element type of the accumulator.
        dtype: Element type of keys and values.
        plain: Whether keys and values are loaded without a fused prologue.
        wide: For each tensor that is read per score: its dtype, and whether n is contiguous.
        rounded: Whether weights have another type than the accumulator.
        operations: Operations per score.
    """

    extents: tuple[int, ...]
    acc_dtype: str
    dtype: str
    plain: bool
    wide: tuple[tuple[str, bool], ...]
    rounded: bool
    operations: int


def attention_plan(pattern: AttentionPattern, machine: MachineParameters) -> AttentionTiling | None:
    """Return the cheapest plan; None if no blocks fit on chip."""
    _, m, n, _, _ = pattern.axes
    nodes = walk([pattern.score, pattern.weight])
    reads = [(x.payload.value.dtype, x.payload.index.coeffs) for x in nodes if x.op == "in"]
    facts = _Facts(
        pattern.extents,
        pattern.accumulator,
        pattern.k.dtype,
        pattern.k.op == pattern.v.op == "in",
        tuple((dtype, steps[n] == 1) for dtype, steps in reads if steps[n] and steps[m]),
        pattern.weight.dtype != pattern.accumulator,
        EXPONENTIAL_OPERATIONS[pattern.accumulator]
        + sum(x.op.startswith(("arith.", "math.")) for x in nodes),
    )
    return _cheapest(facts, machine)


@lru_cache(maxsize=256)
def _cheapest(facts: _Facts, machine: MachineParameters) -> AttentionTiling | None:
    plans = [_cost(facts, machine, *sizes) for sizes in _sizes(facts, machine)]
    return min((p for p in plans if p is not None), key=lambda p: p.cycles, default=None)


def _sizes(facts: _Facts, machine: MachineParameters) -> Iterator[tuple[int, int, int]]:
    rows, columns = facts.extents[-4:-2]
    widths, height = machine.mm_widths(facts.acc_dtype), machine.mm_rows
    blocks = [cost_rules.pieces(columns, count) for count in (1, 2, 3, 4)]
    blocks += [min(columns, heights * height) for heights in (4, 8, 12, 16, 24, 32)]
    for n_size in dict.fromkeys(blocks):
        for m_size in dict.fromkeys(
            (
                *(min(rows, width) for width in widths),
                *(cost_rules.pieces(rows, count) for count in (1, 2, 3)),
            )
        ):
            if m_size <= 2 * widths[0]:
                yield from (
                    (m_size, n_size, parts)
                    for parts in range(1, min(_MAX_PARTS, cost_rules.pieces(rows, m_size)) + 1)
                )


def _cost(
    facts: _Facts, machine: MachineParameters, m: int, n: int, parts: int
) -> AttentionTiling | None:
    *batch, rows, columns, d, v = facts.extents
    acc_dtype = facts.acc_dtype
    size = ELEMENT_BYTES[facts.acc_dtype]
    moved = ELEMENT_BYTES[facts.dtype]
    operand_bytes = 2 * n * (d + v) * moved
    space = "sm" if facts.plain and operand_bytes <= machine.sm_bytes else "am"
    held = n * m * (
        2 * size + sum(3 * ELEMENT_BYTES[dtype] for dtype, _ in facts.wide)
    ) - n * m * size * (not facts.rounded)
    held += m * size * (2 * parts * d + d + parts * v + 2 * v) + (
        0 if space == "sm" else operand_bytes + (0 if facts.plain else operand_bytes // 2)
    )
    if held > _USABLE_AM * machine.am_bytes:
        return None
    lanes = machine.lanes(acc_dtype)

    def step(m: int, n: int) -> float:
        """Return the cycles of one block of keys for one block of queries."""
        vectors = cost_rules.pieces(m, lanes)
        cycles = cost_rules.outer_cycles(machine, acc_dtype, n, m, d) + cost_rules.outer_cycles(
            machine, acc_dtype, v, m, n
        )
        # Rescaling loads two vectors and stores one through two ports.
        cycles += 1.5 * v * vectors * (columns > n) + MAP_STARTUP_CYCLES[acc_dtype]
        cycles += sum(
            cost_rules.transpose_cycles(machine, dtype, n, m)
            for dtype, along in facts.wide
            if along
        )
        return float(cycles + n * vectors * (1 + facts.operations / machine.fma_units))

    def over(extent: int, size: int, cost: Callable[[int], float]) -> float:
        return extent // size * cost(size) + (cost(extent % size) if extent % size else 0.0)

    blocks, key_blocks = cost_rules.pieces(rows, m), cost_rules.pieces(columns, n)
    entry_units = cost_rules.pieces(blocks, parts)
    units = prod(batch) * entry_units
    most = cost_rules.pieces(units, machine.cores)

    def queries(m: int) -> float:
        """Return the cycles of a block of queries over all keys."""
        return over(columns, n, lambda n: step(m, n)) + cost_rules.transpose_cycles(
            machine, acc_dtype, d + v, m
        )

    def each(entry: float, unit: float) -> float:
        """Return the mean over the busiest core's units.

        The last unit of a batch entry may be smaller.
        """
        return (most // entry_units * entry + most % entry_units * unit) / most

    computing = each(over(rows, m, queries), min(parts, blocks) * queries(m)) / key_blocks
    queries_per_unit = each(rows, min(parts * m, rows))
    moves = _Moves(
        cost_rules.bytes_per_cycle(machine, min(units, machine.cores)),
        keys=columns / key_blocks * d * moved,
        values=columns / key_blocks * v * moved,
        queries=queries_per_unit * d * size,
        results=queries_per_unit * v * size,
        score_tensors=queries_per_unit
        * columns
        / key_blocks
        * sum(ELEMENT_BYTES[dtype] for dtype, _ in facts.wide),
        parts=min(parts, blocks),
    )
    if key_blocks > 1:
        cycles = moves.walk(computing, key_blocks, most)
    else:
        cycles = moves.keep(computing, most, cost_rules.pieces(most, entry_units))
    return AttentionTiling(m, n, parts, space, units, cycles)


@dataclass(frozen=True)
class _Moves:
    """Traffic of a unit, in bytes.

    Attributes:
        rate: Bytes per cycle of a core.
        keys: Keys of a block.
        values: Values of a block.
        queries: Queries of the unit.
        results: Results of the unit.
        score_tensors: Tensors that are read per score, of a block of scores.
        parts: Blocks of queries of the unit.
    """

    rate: float
    keys: float
    values: float
    queries: float
    results: float
    score_tensors: float
    parts: int

    def walk(self, computing: float, blocks: int, units: int) -> float:
        """Return the cycles if units iterate over several blocks of keys.

        While all parts use one block of keys, the next block is loaded. The first step of a unit
        also loads the next unit's queries and stores the rest of the previous unit's results; the
        last step stores the unit's results.

        Args:
            computing: Cycles of all parts for one block.
            blocks: Blocks of keys.
            units: Units of the busiest core.
        """
        block, last = self.keys + self.values + self.score_tensors, self.results / self.parts
        begins = self._step(computing, block + self.queries + last)
        goes_on = self._step(computing, block)
        ends = self._step(computing, block + self.results - last)
        most = units * (begins + (blocks - 2) * goes_on + ends)
        over = (
            begins
            - self._step(computing, block + last)
            + ends
            - self._step(computing, self.results - last)
        )
        return most - over + self._edges(computing, block + self.queries)

    def keep(self, computing: float, units: int, entries: int) -> float:
        """Return the cycles if one block holds all keys of a batch entry.

        Keys and values are loaded with the first unit of an entry.

        Args:
            computing: Cycles of a unit.
            units: Units of the busiest core.
            entries: Batch entries of the busiest core.
        """
        unit_bytes = self.queries + self.score_tensors
        new = (entries - 1) / max(units - 1, 1)  # fraction of units that start another entry

        def step(stored: float) -> float:
            both = (
                self._step(computing, unit_bytes + stored),
                self._step(computing, unit_bytes + self.keys + self.values + stored),
            )
            return (1 - new) * both[0] + new * both[1]

        last = self._step(computing, self.results)
        total = computing if units == 1 else step(0.0) + (units - 2) * step(self.results) + last
        return total + self._edges(computing, 0.0 if units == 1 else unit_bytes)

    def _step(self, computing: float, moved: float) -> float:
        return max(computing, moved / self.rate)

    def _edges(self, computing: float, score_tensors: float) -> float:
        """Return the exposed cycles: loads of the first queries and keys, and the last store.

        The first values and the queries of the other parts are loaded during the first block,
        together with the next block.
        """
        first, rest = self.queries / self.parts, self.queries * (self.parts - 1) / self.parts
        exposed = self._step(computing, self.values + rest + score_tensors) - self._step(
            computing, score_tensors
        )
        return (first + self.keys + self.results / self.parts) / self.rate + exposed


def nodes_in(node: Node) -> list[Node]:
    """Return the loads among the nodes below ``node``."""
    return [x for x in walk([node]) if x.op == "in"]
