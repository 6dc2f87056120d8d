"""Executes and times the expansion of an instruction outside of maps, in pipelined loops.

An expansion is written once and used twice. With data it computes the instruction's result, for
tests. *Dry*, it executes each loop body once and counts cycles, for the cycle model.

Timing: a loop takes its critical path once (pipeline fill) plus, per iteration, its initiation
interval. That is the use of the busiest unit, or the latency of a loop-carried dependence.
Operations before a loop issue while it fills; operations after it form an interval of their own.
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
    """A vector or scalar register: its elements, and when they are ready within its loop."""

    value: Any
    block: _Block
    ready: int


@dataclass(eq=False)
class _Block:
    taken: dict[str, float] = field(default_factory=dict)
    critical: int = 0
    cycles: float = 0.0
    nested: bool = False


class MacroSimulator:
    """The units of a core.

    Args:
        machine: The machine.
        dtype: Token of the element type, which determines the number of lanes.
        costs: Cost of a map operation by name and suffix, for `macro`.
        dry: Count cycles only; each loop body is executed once.
    """

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
        """Cycles of everything executed so far."""
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
        """Execute ``turns`` iterations.

        ``chain`` is the latency in cycles from one iteration to the next that needs its result.
        """
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
        self, unit: str, latency: int, value: object, *sources: UnitVector, count: float = 1
    ) -> UnitVector:
        block = self._blocks[-1]
        start = max((source.ready for source in sources if source.block is block), default=0)
        if self._counting:
            block.taken[unit] = block.taken.get(unit, 0) + count
            block.critical = max(block.critical, start + latency)
        return UnitVector(value, block, start + latency)

    def branches(self, count: int) -> None:
        """Charge ``count`` backward branches whose latency is not hidden."""
        if self._counting:
            self._blocks[-1].cycles += count * self.machine.branch_latency

    # --- operations of the machine
    # -------------------------------------------------------------------------

    def load(self, row: np.ndarray, first: int, fill: float = 0) -> UnitVector:
        """Load a vector; lanes beyond the row's end are ``fill``."""
        part = row[first : first + self.lanes]
        value = np.full(self.lanes, fill, row.dtype)
        value[: part.size] = part
        return self._do("VLDST", self.machine.vector_load_latency, value)

    def store(self, vector: UnitVector, row: np.ndarray, first: int) -> None:
        """Store a vector; lanes beyond the row's end are not written."""
        part = row[first : first + self.lanes]
        part[...] = vector.value[: part.size]
        self._do("VLDST", self.machine.vector_store_latency, None, vector)

    def load_scalar(self, row: np.ndarray, at: int, count: float = 1) -> UnitVector:
        """Load a scalar; ``count`` is its share of a load that also brings neighbors."""
        return self._do(
            "SLDST",
            self.machine.scalar_load_latency,
            row[at] if at < row.size else row.dtype.type(0),
            count=count,
        )

    def broadcast(self, scalar: UnitVector, count: float = 1) -> UnitVector:
        """Broadcast a scalar to all lanes; ``count`` is its share of a cycle."""
        return self._do(
            "SVB",
            self.machine.broadcast_latency,
            np.full(self.lanes, scalar.value),
            scalar,
            count=count,
        )

    def constant(self, value: object) -> UnitVector:
        """Return the same number in all lanes, prepared outside of loops."""
        return UnitVector(np.full(self.lanes, value), self._blocks[0], 0)

    def shuffle(self, places: np.ndarray, a: UnitVector, b: UnitVector | None = None) -> UnitVector:
        """Shuffle: lane i of the result is lane places[i] of a; from ``lanes`` on, of b."""
        pair = a.value if b is None else np.concatenate([a.value, b.value])
        return self._do("VIEU", 1, pair[places], *((a,) if b is None else (a, b)))

    def convert(self, a: UnitVector, dtype: np.dtype) -> UnitVector:
        """Convert to another type; free if the type is equal."""
        if a.value.dtype == dtype:
            return a
        with np.errstate(all="ignore"):
            return self._do("VMAC1", CONVERT_LATENCY, a.value.astype(dtype), a)

    def fma(self, a: UnitVector, b: UnitVector, c: UnitVector) -> UnitVector:
        """Return a * b + c."""
        return self._do("VMAC", self.machine.fma_latency, a.value * b.value + c.value, a, b, c)

    def add(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """Return a + b; for floats an FMA with 1."""
        latency = self.machine.fma_latency if a.value.dtype.kind == "f" else 1
        with np.errstate(all="ignore"):
            return self._do("VMAC", latency, a.value + b.value, a, b)

    def subtract(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """Return a - b; for floats an FMA with 1."""
        latency = self.machine.fma_latency if a.value.dtype.kind == "f" else 1
        with np.errstate(all="ignore"):
            return self._do("VMAC", latency, a.value - b.value, a, b)

    def multiply(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """Return a * b."""
        with np.errstate(all="ignore"):
            return self._do("VMAC", MULTIPLY_LATENCY, a.value * b.value, a, b)

    def compare(
        self, function: Callable[[np.ndarray, np.ndarray], np.ndarray], a: UnitVector, b: UnitVector
    ) -> UnitVector:
        """Compare each lane, which gives a predicate."""
        return self._do("VMAC", 1, function(a.value, b.value), a, b)

    def either(self, a: UnitVector, b: UnitVector) -> UnitVector:
        """Return the disjunction of two predicates."""
        return self._do("VIEU", 1, a.value | b.value, a, b)

    def select(self, predicate: UnitVector, a: UnitVector, b: UnitVector) -> UnitVector:
        """Return a where the predicate is true, else b: a predicated move."""
        return self._do("VMAC", 1, np.where(predicate.value, a.value, b.value), predicate, a, b)

    def macro(
        self, name: str, function: Callable[..., np.ndarray], source: UnitVector
    ) -> UnitVector:
        """Apply a macro of the map table to f64, at its cost."""
        cost = self.costs(name, "F64")
        with np.errstate(all="ignore"):
            result = self._do("VMAC", cost.latency, function(source.value), source, count=0)
        for unit, count in cost.slots:
            self._do(unit, 0, None, count=count)
        return result
