"""One core of the cycle model: registers, extents of tiles, and tile instructions as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ftm_backend.assembler.image_layout import COLLECTIVE_BIT, FLAGS
from ftm_backend.perf_model import tile_instruction_costs as cost
from ftm_backend.perf_model.events import (
    CollectiveEvent,
    CollectiveWaitEvent,
    ComputeEvent,
    DmaEvent,
    Event,
    Slot,
    WaitEvent,
)
from ftm_backend.perf_model.image_decoder import DecodedImage
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import BY_NUMBER, SCALAR_REGISTERS
from ftm_backend.target.instruction_table import INSTRUCTIONS, OPCODES
from ftm_backend.target.instructions.collective import COLLECTIVE_KINDS

_OP = OPCODES
NAMES = [row.name for row in INSTRUCTIONS]
_TA, _TB, _DOWN = (1 << FLAGS.index(name) for name in ("TA", "TB", "DOWN"))
_COMBINATIONS = {1 << FLAGS.index(name): name for name in ("ADD", "MUL", "MIN", "MAX", "LSE")}
_GATHERED = -1
"""Stands for a tile in the slot of elements that a map gathers."""


class CoreModel:
    """The state that instructions read and write.

    Args:
        decoded: The program.
        scalars: Values of the program's scalars.
        shared: Extents of GSM slots, shared by all cores.
    """

    def __init__(
        self, decoded: DecodedImage, scalars: list[int], shared: dict[Slot, tuple[int, int]]
    ) -> None:
        self.decoded, self.shared = decoded, shared
        self.machine = decoded.machine
        self.registers = [0] * SCALAR_REGISTERS
        self.scalars = list(scalars)
        self.extents: dict[Slot, tuple[int, int]] = {}
        self.events: list[Event] = []
        self._bound: dict[int, int] = {}
        """Parameter -> the buffer that the last call bound it to."""
        self._bound_scalars: dict[int, int] = {}
        """Scalar parameter -> the program's scalar that the last call bound it to."""
        self._busy = 0
        self._products: dict[tuple[object, ...], cost.TileWork] = {}
        self._transfers: dict[tuple[object, ...], cost.TransferWork] = {}

    def value(self, item: tuple[int, ...], at: int) -> int:
        """Return scalar operand number ``at`` of an instruction record."""
        return self._sum(*item[15 + 3 * at : 18 + 3 * at])

    def _sum(self, result: int, register: int, scalar: int) -> int:
        """Evaluate a Value record."""
        if register >= 0:
            result += self.registers[register]
        if scalar >= 0:
            result += self.scalars[scalar]
        return result

    def flush(self) -> None:
        """Emit the scalar work since the last event as an event."""
        if self._busy:
            self.events.append(ComputeEvent(self._busy))
            self._busy = 0

    def _slot(self, item: tuple[int, ...], number: int) -> Slot:
        tile = item[8 + number]
        return tile, self.value(item, number) % self.decoded.sections["tiles"][tile][4]

    def _extents(self, slot: Slot) -> tuple[int, int]:
        """Return the current extents of a slot; 0x0 before it is first filled."""
        return (self.shared if self.decoded.in_gsm[slot[0]] else self.extents).get(slot, (0, 0))

    def _fill(self, slot: Slot, rows: int, columns: int) -> None:
        (self.shared if self.decoded.in_gsm[slot[0]] else self.extents)[slot] = rows, columns

    def _dims(
        self, item: tuple[int, ...]
    ) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Return (extent, stride) of a transfer's row and column dimensions."""
        found: list[tuple[int, float]] = []
        for record in self.decoded.sections["dims"][item[11] : item[11] + item[12] + item[13]]:
            pair = []
            for at in (0, 3):
                pair.append(self._sum(*record[at : at + 3]))
            found.append((max(pair[0], 0), pair[1]))
        return found[: item[12]], found[item[12] :]

    def _transfer(self, item: tuple[int, ...]) -> None:
        rows: list[tuple[int, float]]
        rows, columns = self._dims(item)
        slot = self._slot(item, 0)
        slots: tuple[Slot, ...] = (slot,)
        tile = self.decoded.sections["tiles"][slot[0]]
        if item[0] in (_OP["DGA"], _OP["DSC"]):
            index = self._slot(item, 1)
            slots = (slot, index)
            extents = self._extents(index)
            rows = [(extents[0] * extents[1], cost.ANYWHERE)]
        buffer = self._bound.get(item[7], item[7])
        key = (
            tile[3],
            self.decoded.in_gsm[slot[0]],
            self.decoded.buffer_in_gsm[buffer],
            tuple(rows),
            tuple(columns),
        )
        moved = self._transfers.get(key)
        if moved is None:
            moved = self._transfers[key] = cost.transfer(
                self.machine, BY_NUMBER[key[0]].bytes, rows, columns, key[1], key[2]
            )
        if item[0] in (_OP["DLD"], _OP["DLB"], _OP["DGA"]):
            self._fill(slot, _count(rows), _count(columns))
        operation = _combination(item)
        if operation is None:
            self.events.append(DmaEvent(slots, moved, NAMES[item[0]], buffer))
            return
        # Each row is loaded, combined by the core and stored before the next row, which may be the
        # same one.
        counts = _count(rows), _count(columns)
        launches = 2 * counts[0]
        doubled = cost.TransferWork(
            2 * moved.bytes,
            2 * moved.ddr_bytes,
            2 * moved.gsm_bytes,
            2 * moved.element_cycles,
            launches,
        )
        self.events.append(DmaEvent(slots, doubled, NAMES[item[0]], buffer))
        self.events.append(WaitEvent(slot))
        work = cost.combination(self.machine, BY_NUMBER[tile[3]].token, *counts, operation)
        self.events.append(ComputeEvent(work, what=NAMES[item[0]]))

    def _copy(self, item: tuple[int, ...]) -> None:
        source, target = self._slot(item, 0), self._slot(item, 1)
        rows, columns = self._extents(source)
        tiles = self.decoded.sections["tiles"]
        size = rows * columns * BY_NUMBER[tiles[source[0]][3]].bytes
        shared = self.decoded.in_gsm[source[0]] or self.decoded.in_gsm[target[0]]
        self._fill(target, rows, columns)
        self.events.append(
            DmaEvent((source, target), cost.TransferWork(size, 0, size if shared else 0, 0.0))
        )

    def _window_copy(self, item: tuple[int, ...]) -> None:
        source, target = self._slot(item, 0), self._slot(item, 1)
        rows, columns = self._dims(item)
        shared = self.decoded.in_gsm[source[0]] or self.decoded.in_gsm[target[0]]
        element = BY_NUMBER[self.decoded.sections["tiles"][source[0]][3]].bytes
        self._fill(target, _count(rows), _count(columns))
        self.events.append(
            DmaEvent(
                (source, target),
                cost.window_copy(self.machine, element, rows, columns, shared),
                "DCW",
            )
        )

    def _product(self, item: tuple[int, ...]) -> None:
        a, b, c = (self._slot(item, n) for n in range(3))
        rows, depth = self._extents(a)
        columns = self._extents(b)[0 if item[1] & _TB else 1]
        if item[1] & _TA:
            rows, depth = depth, rows
        dtype = BY_NUMBER[self.decoded.sections["tiles"][c[0]][3]].token
        key = dtype, rows, columns, depth, bool(item[1] & _TB)
        work = self._products.get(key)
        if work is None:
            work = cost.product(self.machine, *key)
            self._products[key] = work
        self._fill(c, rows, columns)
        self.events.append(ComputeEvent(work.cycles, work.flops, work.ideal, NAMES[item[0]]))

    def _windows(self, item: tuple[int, ...]) -> None:
        _, b, c = (self._slot(item, n) for n in range(3))
        rows, columns = (tuple(extent for extent, _ in side) for side in self._dims(item))
        dtype = BY_NUMBER[self.decoded.sections["tiles"][c[0]][3]].token
        key = dtype, rows, self._extents(b)[1], columns
        work = self._products.get(key)
        if work is None:
            work = self._products[key] = cost.windows(self.machine, *key)
        self._fill(c, prod(rows), key[2])
        self.events.append(ComputeEvent(work.cycles, work.flops, work.ideal, NAMES[item[0]]))

    def _map(self, item: tuple[int, ...]) -> None:
        rows, columns = max(self.value(item, 0), 0), max(self.value(item, 1), 0)
        sections = self.decoded.sections
        record = sections["maps"][item[5]]
        for out in sections["map_outputs"][record[2] : record[2] + record[3]]:
            slot = out[9] + (self.registers[out[10]] if out[10] >= 0 else 0)
            shape = ((rows, columns), (rows, 1), (1, columns), (1, 1))[out[1]]
            self._fill((out[0], slot % sections["tiles"][out[0]][4]), *shape)
        body = self.decoded.maps[item[5]]
        for buffer, size in body.gathers:
            buffer = self._bound.get(buffer, buffer)
            moved = cost.transfer(
                self.machine,
                size,
                [(rows * columns, cost.ANYWHERE)],
                [],
                near=self.decoded.buffer_in_gsm[buffer],
            )
            self.events.append(DmaEvent(((_GATHERED, 0),), moved, "VGA", buffer))
            self.events.append(WaitEvent((_GATHERED, 0)))
        work = body.work(rows, columns)
        self.events.append(ComputeEvent(work.cycles, work.flops, work.ideal, NAMES[item[0]]))

    def _transpose(self, item: tuple[int, ...]) -> None:
        source = self._slot(item, 0)
        rows, columns = self._extents(source)
        self._fill(self._slot(item, 1), columns, rows)
        dtype = BY_NUMBER[self.decoded.sections["tiles"][source[0]][3]].token
        self.events.append(
            ComputeEvent(
                cost_rules.transpose_cycles(self.machine, dtype, rows, columns),
                what="TRANS",
            )
        )

    def _fold(self, item: tuple[int, ...]) -> None:
        source, target = self._slot(item, 0), self._slot(item, 1)
        taps, others = self._dims(item)
        windows, sizes = others[: len(taps)], others[len(taps) :]
        numbers = [tuple(int(extent) for extent, _ in side) for side in (taps, windows, sizes)]
        shape = cost_rules.Col2ImCost(
            numbers[0], numbers[1], numbers[2], tuple(int(stride) for _, stride in windows)
        )
        rows, columns = self._extents(source)
        channels, images = rows // prod(shape.taps), columns // prod(shape.windows)
        self._fill(target, channels, images * prod(shape.sizes))
        dtype = BY_NUMBER[self.decoded.sections["tiles"][source[0]][3]].token
        elements = images * prod(shape.steps)
        self.events.append(
            ComputeEvent(
                cost_rules.fold_cycles(self.machine, dtype, shape, channels, elements), what="FOLD"
            )
        )

    def _scan(self, item: tuple[int, ...]) -> None:
        rows, columns = self._extents(self._slot(item, 0))
        self._fill(self._slot(item, 2), rows, columns)
        dtype = BY_NUMBER[self.decoded.sections["tiles"][item[8]][3]].token
        operation = _combination(item)
        assert operation is not None
        self.events.append(
            ComputeEvent(
                cost.scan(self.machine, dtype, rows, columns, operation, bool(item[1] & _DOWN)),
                what="SCAN",
            )
        )

    def _sort(self, item: tuple[int, ...]) -> None:
        rows, columns = self._extents(self._slot(item, 0))
        target = self._slot(item, 1)
        kept = min(columns, self.decoded.sections["tiles"][target[0]][6])
        self._fill(target, rows, kept)
        self.events.append(ComputeEvent(cost.sort(self.machine, rows, columns, kept), what="SORT"))

    def _merge(self, item: tuple[int, ...]) -> None:
        (rows, a), (_, b) = self._extents(self._slot(item, 0)), self._extents(self._slot(item, 1))
        self._fill(self._slot(item, 2), rows, a + b)
        self.events.append(ComputeEvent(cost.merge(self.machine, rows, a, b), what="MERGE"))

    def _start_collective(self, item: tuple[int, ...]) -> None:
        buffer = self.decoded.sections["buffers"][item[7]]
        elements = max(self.value(item, 0), self.value(item, 1))  # of the whole tensor
        size = elements * BY_NUMBER[buffer[2]].bytes
        kind = COLLECTIVE_KINDS[item[1] >> COLLECTIVE_BIT]
        self.events.append(CollectiveEvent(kind, size, self._call(item, 2)))

    def _wait_for_collective(self, item: tuple[int, ...]) -> None:
        self.events.append(CollectiveWaitEvent(self._call(item, 0)))

    def _call(self, item: tuple[int, ...], at: int) -> tuple[int, int]:
        """Return what tells collectives apart: a scalar of the program, whose value is unknown."""
        scalar = item[17 + 3 * at]
        return self._bound_scalars.get(scalar, scalar), item[15 + 3 * at]


def _combination(item: tuple[int, ...]) -> str | None:
    """Return the operation that an instruction combines by, if any."""
    return next((name for flag, name in _COMBINATIONS.items() if item[1] & flag), None)


def _count(dims: Sequence[tuple[int, float]]) -> int:
    total = 1
    for extent, _ in dims:
        total *= extent
    return total


TILE_INSTRUCTIONS: dict[str, Callable[[CoreModel, tuple[int, ...]], None]] = {
    "DLD": CoreModel._transfer,
    "DLB": CoreModel._transfer,
    "DST": CoreModel._transfer,
    "DGA": CoreModel._transfer,
    "DSC": CoreModel._transfer,
    "DCP": CoreModel._copy,
    "DCW": CoreModel._window_copy,
    "MM": CoreModel._product,
    "MMW": CoreModel._windows,
    "TRANS": CoreModel._transpose,
    "FOLD": CoreModel._fold,
    "SCAN": CoreModel._scan,
    "SORT": CoreModel._sort,
    "MERGE": CoreModel._merge,
    "@map": CoreModel._map,
    "CSTART": CoreModel._start_collective,
    "CWAIT": CoreModel._wait_for_collective,
    "DWAIT": lambda core, item: core.events.append(WaitEvent(core._slot(item, 0))),
    "DWAITALL": lambda core, item: core.events.append(WaitEvent(None)),
}
"""Updates a core's state and emits events, by instruction."""
