"""The way of one core through a program: scalar control flow executed, tile instructions turned into events.

Scalar instructions run as they would on the machine; an integer loaded from DDR is not known and takes a
default.  ``cycles_jump`` shortens long loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ftm_backend.instructions.table import INSTRUCTIONS, OPCODES
from ftm_backend.instructions.types import BY_NUMBER, SCALAR_REGISTERS, SPACES
from ftm_backend.isa.image import read_sections
from ftm_backend.isa.layout import FLAGS, HEADER, NONE
from ftm_backend.machine import cycles_cost as cost
from ftm_backend.machine import rules
from ftm_backend.machine.cycles_events import Compute, Dma, Enter, Event, Slot, Wait
from ftm_backend.machine.cycles_jump import Jumper, is_steady
from ftm_backend.machine.cycles_map import map_cost
from ftm_backend.machine.presets import MachineParameters

_OP = OPCODES
_NAMES = [row.name for row in INSTRUCTIONS]
_TA, _TB, _DOWN, _ZIP = (1 << FLAGS.index(name) for name in ("TA", "TB", "DOWN", "ZIP"))
_COMBINATIONS = {1 << FLAGS.index(name): name for name in ("ADD", "MUL", "MIN", "MAX", "LSE")}
_FETCHED = -1
"""In place of a tile: what a map gathers."""


class WalkError(ValueError):
    """The program cannot be walked: it does not end, or leaves its code."""


class Decoded:
    """An image with what all cores' walks share: records and costs of maps."""

    def __init__(self, image: bytes, machine: MachineParameters, extrapolate: bool = True) -> None:
        self.extrapolate = extrapolate
        self.sections = read_sections(image)
        self.machine = machine
        header = HEADER.struct.unpack_from(image)
        self.main = header[7]
        self.functions = self.sections["functions"]
        self.names = [self.string(f[0]) for f in self.functions]
        self.code = self.sections["instructions"]
        self.maps = [map_cost(machine, record, self.sections) for record in self.sections["maps"]]
        self.in_gsm = [tile[2] == SPACES["gsm"] for tile in self.sections["tiles"]]
        self.bounds = {label[1]: label[3] for label in self.sections["labels"]}
        self._steady: dict[int, bool] = {}

    def string(self, offset: int) -> str:
        """A string of the image."""
        blob = self.sections["strings"]
        return blob[offset : blob.index(b"\0", offset)].decode()

    def steady(self, first: int, branch: int) -> bool:
        """Whether the loop from instruction ``first`` to ``branch`` may be jumped over."""
        known = self._steady.get(branch)
        if known is None:
            known = self._steady[branch] = self.extrapolate and is_steady(self.code[first:branch])
        return known


class Walk:
    """One core's walk, from barrier to barrier; ``shared`` holds the extents of GSM slots for all cores."""

    def __init__(
        self,
        decoded: Decoded,
        core: int,
        cores: int,
        scalars: list[int],
        loaded: int,
        limit: int,
        shared: dict[Slot, tuple[int, int]],
    ) -> None:
        self.decoded, self.core, self.cores, self.loaded, self.limit = decoded, core, cores, loaded, limit
        self.shared = shared
        self.scalars = list(scalars)
        self._bound: dict[int, int] = {}
        """Parameter -> the buffer that the last call bound it to."""
        self.machine = decoded.machine
        self.registers = [0] * SCALAR_REGISTERS
        self.extents: dict[Slot, tuple[int, int]] = {}
        self.events: list[Event] = [Enter(decoded.main)]
        self.decisions: list[int] = []
        """Outcomes of comparisons, minima, maxima and predicates: what can change the course of a loop."""
        self.done = False
        self._stack: list[int] = []
        self._position = decoded.functions[decoded.main][1]
        self._steps = 0
        self._busy = 0
        self._jumper = Jumper(self)
        self._products: dict[tuple[Any, ...], cost.Work] = {}
        self._transfers: dict[tuple[Any, ...], cost.Transfer] = {}

    def value(self, item: tuple[int, ...], at: int) -> int:
        """Scalar operand number ``at`` of an instruction record."""
        return self._sum(*item[15 + 3 * at : 18 + 3 * at])

    def _sum(self, result: int, register: int, scalar: int) -> int:
        """A Value record."""
        if register >= 0:
            result += self.registers[register]
        if scalar >= 0:
            result += self.scalars[scalar]
        return result

    def phase(self) -> list[Event]:
        """Walks on to the next barrier or, setting ``done``, to the end; returns the events on the way."""
        code, functions = self.decoded.code, self.decoded.functions
        registers = self.registers
        branch, call, ret, barrier = _OP["SBR"], _OP["@call"], _OP["@ret"], _OP["BARRIER"]
        position = self._position
        while True:
            self._steps += 1
            if self._steps > self.limit:
                raise WalkError(f"more than {self.limit} instructions on core {self.core}: does the program end?")
            item = code[position]
            opcode = item[0]
            predicate = item[2]
            taken = True
            if predicate != NONE:
                held = registers[predicate]
                taken = (held != 0) != bool(item[3])
                self.decisions.append((held > 0) - (held < 0))
            if opcode == branch:
                self._busy += self.machine.branch_latency
                position = self._jumper.branch(position, item[5], taken)
            elif self._jumper.pending and opcode in (ret, call, barrier):
                position = self._jumper.give_up()
            elif opcode == ret:
                self.flush()
                if not self._stack:
                    self.done = True
                    return self._take()
                position = self._stack.pop()
                self._jumper.leave()
                self.events.append(Enter(NONE))
            elif not taken:
                self._busy += self.machine.scalar_latency
                position += 1
            elif opcode == call:
                self.flush()
                self._bind(item)
                self._stack.append(position + 1)
                self._jumper.leave()
                self.events.append(Enter(item[5]))
                position = functions[item[5]][1]
            elif opcode == barrier:
                self.flush()
                self._jumper.leave()
                self._position = position + 1
                return self._take()
            else:
                self._execute(item, _NAMES[opcode])
                position += 1

    def _bind(self, item: tuple[int, ...]) -> None:
        """Binds the parameters of the function that is called."""
        _, _, _, _, first_buffer, buffers, first_scalar, scalars = self.decoded.functions[item[5]]
        arguments = self.decoded.sections["arguments"][item[11] : item[11] + buffers + scalars]
        for number, (buffer, *_) in enumerate(arguments[:buffers], first_buffer):
            self._bound[number] = self._bound.get(buffer, buffer)
        for number, (_, _, *value) in enumerate(arguments[buffers:], first_scalar):
            self.scalars[number] = self._sum(*value)

    def _take(self) -> list[Event]:
        taken, self.events = self.events, []
        self.decisions.clear()
        return taken

    def restore(
        self,
        registers: list[int],
        extents: dict[Slot, tuple[int, int]],
        shared: dict[Slot, tuple[int, int]],
        events: int,
        decisions: int,
    ) -> None:
        """Goes back to an earlier state, of which so many events and decisions are kept."""
        self._busy = 0
        self.registers[:] = registers
        self.extents = extents
        self.shared.clear()
        self.shared.update(shared)
        del self.events[events:]
        del self.decisions[decisions:]

    # --- instructions ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Makes an event of the scalar work that was done since the last one."""
        if self._busy:
            self.events.append(Compute(self._busy))
            self._busy = 0

    def _slot(self, item: tuple[int, ...], number: int) -> Slot:
        tile = item[8 + number]
        return tile, self.value(item, number) % self.decoded.sections["tiles"][tile][4]

    def _extents(self, slot: Slot) -> tuple[int, int]:
        """Current extents of a slot; 0x0 where nothing filled it yet."""
        return (self.shared if self.decoded.in_gsm[slot[0]] else self.extents).get(slot, (0, 0))

    def _fill(self, slot: Slot, rows: int, columns: int) -> None:
        (self.shared if self.decoded.in_gsm[slot[0]] else self.extents)[slot] = rows, columns

    def _execute(self, item: tuple[int, ...], name: str) -> None:
        execute = _TILE.get(name)
        if execute is None:
            self._busy += self.machine.scalar_load_latency if name == "SLDI" else self.machine.scalar_latency
            self.registers[item[6]] = self._scalar(item, name)
            return
        self._busy += self.machine.issue_cycles
        self.flush()
        execute(self, item)

    def _scalar(self, item: tuple[int, ...], name: str) -> int:
        if name == "SCID":
            return self.core
        if name == "SNC":
            return self.cores
        if name == "SLDI":
            return self.loaded
        a = self.value(item, 0)
        if name == "SMOV":
            return a
        b = self.value(item, 1)
        result = _SCALAR[name](a, b)
        if name == "SLT":
            self.decisions.append(result)
        elif name in ("SMIN", "SMAX"):
            self.decisions.append((a > b) - (a < b))
        return result

    def _dims(self, item: tuple[int, ...]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Extents and strides of a transfer, rows and columns."""
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
        key = tile[3], self.decoded.in_gsm[slot[0]], tuple(rows), tuple(columns)
        moved = self._transfers.get(key)
        if moved is None:
            moved = self._transfers[key] = cost.transfer(self.machine, BY_NUMBER[key[0]].bytes, rows, columns, key[1])
        if item[0] in (_OP["DLD"], _OP["DLB"], _OP["DGA"]):
            self._fill(slot, _count(rows), _count(columns))
        operation = _combination(item)
        buffer = self._bound.get(item[7], item[7])
        if operation is None:
            self.events.append(Dma(slots, moved, _NAMES[item[0]], buffer))
            return
        # Each row is fetched, combined by the core and stored before the next, which may be the same.
        counts = _count(rows), _count(columns)
        launches = 2 * counts[0]
        twice = cost.Transfer(2 * moved.bytes, 2 * moved.ddr_bytes, 2 * moved.gsm_bytes, 2 * moved.element_cycles, launches)
        self.events.append(Dma(slots, twice, _NAMES[item[0]], buffer))
        self.events.append(Wait(slot))
        work = cost.combination(self.machine, BY_NUMBER[tile[3]].token, *counts, operation)
        self.events.append(Compute(work, what=_NAMES[item[0]]))

    def _copy(self, item: tuple[int, ...]) -> None:
        source, target = self._slot(item, 0), self._slot(item, 1)
        rows, columns = self._extents(source)
        tiles = self.decoded.sections["tiles"]
        size = rows * columns * BY_NUMBER[tiles[source[0]][3]].bytes
        shared = self.decoded.in_gsm[source[0]] or self.decoded.in_gsm[target[0]]
        self._fill(target, rows, columns)
        self.events.append(Dma((source, target), cost.Transfer(size, 0, size if shared else 0, 0.0)))

    def _window_copy(self, item: tuple[int, ...]) -> None:
        source, target = self._slot(item, 0), self._slot(item, 1)
        rows, columns = self._dims(item)
        shared = self.decoded.in_gsm[source[0]] or self.decoded.in_gsm[target[0]]
        element = BY_NUMBER[self.decoded.sections["tiles"][source[0]][3]].bytes
        self._fill(target, _count(rows), _count(columns))
        self.events.append(Dma((source, target), cost.window_copy(self.machine, element, rows, columns, shared), "DCW"))

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
        self.events.append(Compute(work.cycles, work.flops, work.ideal, _NAMES[item[0]]))

    def _windows(self, item: tuple[int, ...]) -> None:
        _, b, c = (self._slot(item, n) for n in range(3))
        rows, columns = (tuple(extent for extent, _ in side) for side in self._dims(item))
        dtype = BY_NUMBER[self.decoded.sections["tiles"][c[0]][3]].token
        key = dtype, rows, self._extents(b)[1], columns
        work = self._products.get(key)
        if work is None:
            work = self._products[key] = cost.windows(self.machine, *key)
        self._fill(c, prod(rows), key[2])
        self.events.append(Compute(work.cycles, work.flops, work.ideal, _NAMES[item[0]]))

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
            moved = cost.transfer(self.machine, size, [(rows * columns, cost.ANYWHERE)], [])
            self.events.append(Dma(((_FETCHED, 0),), moved, "VGA", self._bound.get(buffer, buffer)))
            self.events.append(Wait((_FETCHED, 0)))
        work = body.work(rows, columns)
        self.events.append(Compute(work.cycles, work.flops, work.ideal, _NAMES[item[0]]))

    def _transpose(self, item: tuple[int, ...]) -> None:
        source = self._slot(item, 0)
        rows, columns = self._extents(source)
        zipped = bool(item[1] & _ZIP)
        self._fill(self._slot(item, 1), *((columns // 2, 2 * rows) if zipped else (columns, rows)))
        dtype = BY_NUMBER[self.decoded.sections["tiles"][source[0]][3]].token
        self.events.append(Compute(rules.transpose_cycles(self.machine, dtype, rows, columns, zipped), what="TRANS"))

    def _scan(self, item: tuple[int, ...]) -> None:
        rows, columns = self._extents(self._slot(item, 0))
        self._fill(self._slot(item, 2), rows, columns)
        dtype = BY_NUMBER[self.decoded.sections["tiles"][item[8]][3]].token
        operation = _combination(item)
        assert operation is not None
        self.events.append(Compute(cost.scan(self.machine, dtype, rows, columns, operation, bool(item[1] & _DOWN)), what="SCAN"))

    def _sort(self, item: tuple[int, ...]) -> None:
        rows, columns = self._extents(self._slot(item, 0))
        target = self._slot(item, 1)
        kept = min(columns, self.decoded.sections["tiles"][target[0]][6])
        self._fill(target, rows, kept)
        self.events.append(Compute(cost.sort(self.machine, rows, columns, kept), what="SORT"))

    def _merge(self, item: tuple[int, ...]) -> None:
        (rows, a), (_, b) = self._extents(self._slot(item, 0)), self._extents(self._slot(item, 1))
        self._fill(self._slot(item, 2), rows, a + b)
        self.events.append(Compute(cost.merge(self.machine, rows, a, b), what="MERGE"))


def _combination(item: tuple[int, ...]) -> str | None:
    """What an instruction combines by."""
    return next((name for flag, name in _COMBINATIONS.items() if item[1] & flag), None)


def _count(dims: Sequence[tuple[int, float]]) -> int:
    total = 1
    for extent, _ in dims:
        total *= extent
    return total


_SCALAR: dict[str, Callable[[int, int], int]] = {
    "SADD": lambda a, b: a + b,
    "SSUB": lambda a, b: a - b,
    "SMUL": lambda a, b: a * b,
    "SDIV": lambda a, b: a // b if b else 0,
    "SREM": lambda a, b: a % b if b else 0,
    "SMIN": min,
    "SMAX": max,
    "SLT": lambda a, b: int(a < b),
    "SEQ": lambda a, b: int(a == b),
    "SNE": lambda a, b: int(a != b),
}

_TILE: dict[str, Callable[[Walk, tuple[int, ...]], None]] = {
    "DLD": Walk._transfer,
    "DLB": Walk._transfer,
    "DST": Walk._transfer,
    "DGA": Walk._transfer,
    "DSC": Walk._transfer,
    "DCP": Walk._copy,
    "DCW": Walk._window_copy,
    "MM": Walk._product,
    "MMW": Walk._windows,
    "TRANS": Walk._transpose,
    "SCAN": Walk._scan,
    "SORT": Walk._sort,
    "MERGE": Walk._merge,
    "@map": Walk._map,
    "DWAIT": lambda walk, item: walk.events.append(Wait(walk._slot(item, 0))),
    "DWAITALL": lambda walk, item: walk.events.append(Wait(None)),
}
