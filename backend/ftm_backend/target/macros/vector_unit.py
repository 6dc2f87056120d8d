"""Executes and counts what a macro outside of maps does: vectors in memory, in loops whose bodies
are pipelined.

An expansion is written once and used twice. On numbers it computes what its macro does, for the
tests; *dry* it goes through each loop once and counts, for the cycle model.

Time: a loop takes its critical path once, to fill, and for each turn its initiation interval, which
is what its operations need of the busiest unit, or the latency of what one turn hands to the next.
What stands before a loop is issued while it fills; what stands after it takes its own interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ftm_backend.target.instruction import Cost

if TYPE_CHECKING:
    from ftm_backend.target.presets import MachineParameters

CONVERT_LATENCY = 3
MULTIPLY_LATENCY = 4


@dataclass
class UnitVector:
    """A vector register, or a scalar one: its elements, and when they are ready in the loop that
    computed them."""

    value: Any
    block: _Block
    ready: int


@dataclass(eq=False)
class _Block:
    taken: dict[str, float] = field(default_factory=dict)
    critical: int = 0
    cycles: float = 0.0
    nested: bool = False


class VectorUnit:
    """The units of a core, on vectors of ``dtype`` (a token); ``costs`` knows the map table's
    macros, by name and suffix."""

    def __init__(
        self,
        machine: MachineParameters,
        dtype: str,
        costs: Callable[[str, str], Cost],
        dry: bool = False,
    ) -> None:
        self.machine, self.dtype, self.costs, self.dry = machine, dtype, costs, dry
        self.lanes = machine.lanes(dtype)
        self.numbers = np.arange(self.lanes)
        self._blocks = [_Block()]
        self._counting = True

    @property
    def cycles(self) -> float:
        """Of all that was done."""
        block = self._blocks[0]
        return block.cycles + self._interval(block)

    def _interval(self, block: _Block) -> float:
        machine, taken = self.machine, block.taken
        return max(
            taken.get("VMAC", 0) / machine.fma_units,
            taken.get("VLDST", 0) / machine.vector_memory_ports,
            *(float(taken.get(unit, 0)) for unit in ("VMAC1", "VIEU", "SLDST", "SVB")),
        )

    def loop(self, turns: int, chain: float = 0.0) -> Iterator[int]:
        """``turns`` times the same; ``chain``: cycles from a turn to the next that needs its
        result."""
        outer, inner = self._blocks[-1], _Block()
        if turns == 0:
            return
        counting = self._counting
        self._blocks.append(inner)
        for turn in range(1 if self.dry else turns):
            self._counting = counting and turn == 0
            yield turn
        self._counting = counting
        self._blocks.pop()
        if not counting:
            return
        each = max(inner.cycles + self._interval(inner), chain)
        fill = 0.0 if inner.nested else float(inner.critical)
        outer.cycles += max(fill, self._interval(outer)) + turns * each
        outer.taken.clear()
        outer.nested = True

    def _do(
        self, unit: str, latency: int, value: Any, *sources: UnitVector, count: float = 1
    ) -> UnitVector:
        block = self._blocks[-1]
        start = max((source.ready for source in sources if source.block is block), default=0)
        if self._counting:
            block.taken[unit] = block.taken.get(unit, 0) + count
            block.critical = max(block.critical, start + latency)
        return UnitVector(value, block, start + latency)

    def branches(self, count: int) -> None:
        """So many jumps back that nothing hides."""
        if self._counting:
            self._blocks[-1].cycles += count * self.machine.branch_latency

    # --- the operations that the machine has
    # ------------------------------------------------------------

    def load(self, row: np.ndarray, first: int, fill: Any = 0) -> UnitVector:
        """A vector from memory; lanes beyond the row's end hold ``fill``."""
        part = row[first : first + self.lanes]
        value = np.full(self.lanes, fill, row.dtype)
        value[: part.size] = part
        return self._do("VLDST", self.machine.vector_load_latency, value)

    def store(self, vector: UnitVector, row: np.ndarray, first: int) -> None:
        """A vector to memory; lanes beyond the row's end are not written."""
        part = row[first : first + self.lanes]
        part[...] = vector.value[: part.size]
        self._do("VLDST", self.machine.vector_store_latency, None, vector)

    def load_scalar(self, row: np.ndarray, at: int, count: float = 1) -> UnitVector:
        """A scalar from memory, by so much of a load: one may bring neighbours, too."""
        return self._do(
            "SLDST",
            self.machine.scalar_load_latency,
            row[at] if at < row.size else row.dtype.type(0),
            count=count,
        )

    def broadcast(self, scalar: UnitVector, count: float = 1) -> UnitVector:
        """A scalar in all lanes, by so much of a cycle."""
        return self._do(
            "SVB",
            self.machine.broadcast_latency,
            np.full(self.lanes, scalar.value),
            scalar,
            count=count,
        )

    def constant(self, value: Any) -> UnitVector:
        """The same number in all lanes, prepared once."""
        return UnitVector(np.full(self.lanes, value), self._blocks[0], 0)

    def shuffle(self, places: np.ndarray, a: UnitVector, b: UnitVector | None = None) -> UnitVector:
        """Lane i of the result is lane places[i] of a, or, from ``lanes`` on, of b."""
        pair = a.value if b is None else np.concatenate([a.value, b.value])
        return self._do("VIEU", 1, pair[places], *((a,) if b is None else (a, b)))

    def convert(self, a: UnitVector, dtype: np.dtype) -> UnitVector:
        """To another type, where that is a change."""
        if a.value.dtype == dtype:
            return a
        with np.errstate(all="ignore"):
            return self._do("VMAC1", CONVERT_LATENCY, a.value.astype(dtype), a)

    def fma(self, a: UnitVector, b: UnitVector, c: UnitVector) -> UnitVector:
        """a * b + c."""
        return self._do("VMAC", self.machine.fma_latency, a.value * b.value + c.value, a, b, c)

    def add(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """a + b; of floats an FMA by one."""
        latency = self.machine.fma_latency if a.value.dtype.kind == "f" else 1
        with np.errstate(all="ignore"):
            return self._do("VMAC", latency, a.value + b.value, a, b)

    def subtract(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """a - b, as ``add``."""
        latency = self.machine.fma_latency if a.value.dtype.kind == "f" else 1
        with np.errstate(all="ignore"):
            return self._do("VMAC", latency, a.value - b.value, a, b)

    def multiply(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """a * b."""
        with np.errstate(all="ignore"):
            return self._do("VMAC", MULTIPLY_LATENCY, a.value * b.value, a, b)

    def compare(
        self, function: Callable[[Any, Any], Any], a: UnitVector, b: UnitVector
    ) -> UnitVector:
        """A predicate for each lane, by a comparison."""
        return self._do("VMAC", 1, function(a.value, b.value), a, b)

    def either(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """Where one of two predicates holds."""
        return self._do("VIEU", 1, a.value | b.value, a, b)

    def select(self, predicate: UnitVector, a: UnitVector, b: UnitVector) -> UnitVector:
        """a where the predicate holds, else b: a predicated move."""
        return self._do("VMAC", 1, np.where(predicate.value, a.value, b.value), predicate, a, b)

    def macro(self, name: str, function: Callable[..., Any], source: UnitVector) -> UnitVector:
        """A macro of the map table on f64, by what it costs."""
        cost = self.costs(name, "F64")
        with np.errstate(all="ignore"):
            result = self._do("VMAC", cost.latency, function(source.value), source, count=0)
        for unit, count in cost.slots:
            self._do(unit, 0, None, count=count)
        return result
