"""Costs of maps: the body is a software-pipelined loop over vectors, with macros expanded.

``modulo_scheduler`` computes the initiation interval. All results are *modelled*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ftm_backend.assembler.image_layout import OPERAND_KINDS
from ftm_backend.perf_model.modulo_scheduler import (
    MEMORY,
    ModuloSchedule,
    PipelinedLoop,
    ScheduledOp,
    fastest,
    schedule,
)
from ftm_backend.perf_model.tile_instruction_costs import TileWork
from ftm_backend.target import op_costs
from ftm_backend.target.element_types import BY_NUMBER, FLOATS
from ftm_backend.target.instruction_table import ACCESSES, INSTRUCTIONS
from ftm_backend.target.macros.macro_builder import MacroValue
from ftm_backend.target.presets import MachineParameters


@dataclass(frozen=True, slots=True)
class MapCost:
    """Cost of a map body.

    Attributes:
        schedule: Of the loop over vectors.
        prologue: Cycles to fill the pipeline, once.
        row_cycles: Cycles per row.
        final_cycles: Cycles at the end.
        lanes: Elements per vector.
        flops: Operations per element.
        peak: Operations per cycle with every pipe busy.
        gathers: (buffer, bytes of an element) of elements that DMA fetches for the map.
    """

    schedule: ModuloSchedule
    prologue: int
    row_cycles: float
    final_cycles: float
    lanes: int
    flops: int
    peak: int
    gathers: tuple[tuple[int, int], ...] = ()

    def work(self, rows: int, columns: int) -> TileWork:
        """Return the cost for ``rows`` x ``columns`` elements."""
        if rows == 0 or columns == 0:
            return TileWork(0.0, 0, 0.0)
        vectors = -(-rows // self.lanes) if columns == 1 else rows * -(-columns // self.lanes)
        cycles = self.prologue + self.schedule.interval * vectors + self.final_cycles
        if columns > 1:
            cycles += self.row_cycles * rows
        flops = self.flops * rows * columns
        return TileWork(cycles, flops, flops / self.peak)


_SOURCES, _BUFFER = 5, 14
"""Fields of a map operation's record: its sources (three fields each), the buffer of a gather."""

_NONE, _INPUT, _RESULT = (OPERAND_KINDS.index(kind) for kind in ("NONE", "INPUT", "RESULT"))
_Operand = tuple[object, ...]
"""Identifies a value of the body by its kind, type and index."""


class _Turn:
    """Collects the operations of one iteration; values are looked up by keys."""

    def __init__(self) -> None:
        self.steps: list[ScheduledOp] = []
        self._ready: list[int] = []
        self.invariants: list[int] = []
        self._values: dict[_Operand, int] = {}
        self.longest = 0

    def value(self, key: _Operand) -> int:
        """Return the number of a value; a value that no operation computes is an invariant."""
        if key not in self._values:
            self._values[key] = self.invariant()
        return self._values[key]

    def invariant(self, registers: int = 1) -> int:
        """Add a value that all iterations share."""
        self.invariants.append(registers)
        return -len(self.invariants)

    def name(self, key: _Operand, value: int) -> None:
        """Bind ``key`` to a value."""
        self._values[key] = value

    def do(
        self,
        slots: tuple[tuple[str, int], ...],
        latency: int,
        sources: Sequence[int],
        width: int = 1,
    ) -> int:
        """Add an operation and return its result; one that uses no unit returns its source."""
        if not slots and len(sources) == 1:
            return sources[0]
        start = max((self._ready[source] for source in sources if source >= 0), default=0)
        self.steps.append(ScheduledOp(slots, latency, tuple(sources), width))
        self._ready.append(start + latency)
        self.longest = max(self.longest, start + latency)
        return len(self.steps) - 1


def _operation(turn: _Turn, operation: Sequence[int], number: int) -> None:
    """Add a map operation, or its expansion."""
    row, element = INSTRUCTIONS[operation[0]], BY_NUMBER[operation[1]]
    word = element.suffix if row.types else ""
    records = [tuple(operation[_SOURCES + 3 * s : _SOURCES + 3 * s + 3]) for s in range(3)]
    sources = [
        turn.value((kind, index) if kind in (_INPUT, _RESULT) else (kind, type_, index))
        for kind, type_, index in records
        if kind != _NONE
    ]
    if op_costs.is_macro(row, word):
        own: dict[int, int] = dict(enumerate(sources))
        result = -1
        for each, cost, vectors in op_costs.steps(row, word):
            read = [
                own[s.number]
                if isinstance(s, MacroValue)
                else turn.value(("constant", each.type, s))
                for s in each.sources
            ]
            result = own[each.result.number] = turn.do(
                tuple((unit, count * vectors) for unit, count in cost.slots),
                cost.latency,
                read,
                vectors,
            )
    else:
        cost = op_costs.cost(row.name, word)
        result = turn.do(cost.slots, cost.latency, sources)
    turn.name((_RESULT, number), result)


def map_cost(
    machine: MachineParameters, record: Sequence[int], sections: dict[str, list[tuple[int, ...]]]
) -> MapCost:
    """Schedule a map body.

    The initiation interval follows from issue slots and registers, the prologue from the critical
    path.

    Args:
        machine: The machine.
        record: Record of the map.
        sections: Records of the image.
    """
    first_input, inputs, first_output, outputs, first_op, ops = record[:6]
    operations = sections["map_ops"][first_op : first_op + ops]
    written = sections["map_outputs"][first_output : first_output + outputs]
    turn = _Turn()
    gathers = []
    widest, flops = 1, 0
    for number, entry in enumerate(sections["map_inputs"][first_input : first_input + inputs]):
        widest = max(widest, BY_NUMBER[entry[2]].bytes)
        if ACCESSES[entry[1]] in ("full", "row"):
            turn.name((_INPUT, number), turn.do(((MEMORY, 1),), machine.vector_load_latency, ()))
    for number, operation in enumerate(operations):
        row, element = INSTRUCTIONS[operation[0]], BY_NUMBER[operation[1]]
        widest = max(widest, element.bytes)
        if row.cost.model == "gather":
            gathers.append((operation[_BUFFER], element.bytes))
        _operation(turn, operation, number)
        if row.family in ("map arithmetic", "map math") and row.name != "VMOV":
            if element.suffix in FLOATS:
                flops += 2 if row.name == "VFMA" else 1
    # The prologue covers the critical path without reductions and stores.
    longest = turn.longest
    row_cycles = final_cycles = 0.0
    least = max(1.0, fastest(machine, turn.steps))
    for entry in written:
        widest = max(widest, BY_NUMBER[entry[4]].bytes)
        scope, value = (
            entry[1],
            turn.value(
                (entry[5], entry[7]) if entry[5] in (_INPUT, _RESULT) else tuple(entry[5:8])
            ),
        )
        if scope == 0:
            turn.do(((MEMORY, 1),), machine.vector_store_latency, (value,), width=0)
        else:
            # One partial sum per addition in flight.
            turn.invariant(ceil(machine.fma_latency / least))
            turn.do((("VMAC", 1),), machine.fma_latency, (value,), width=0)
            row_cycles += machine.reduce_cycles if scope == 1 else 0.0
            final_cycles += machine.reduce_cycles if scope == 3 else 0.0
            flops += 1
    prologue = max(longest, machine.vector_load_latency) + machine.vector_store_latency
    lanes = max(1, machine.vector_bytes // widest)
    found = schedule(machine, PipelinedLoop(tuple(turn.steps), tuple(turn.invariants)))
    return MapCost(
        found,
        prologue,
        row_cycles,
        final_cycles,
        lanes,
        flops,
        2 * machine.fma_units * lanes,
        tuple(gathers),
    )
