"""Reads the text of the tile level; see ``text``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from ftm_backend.machine.presets import ELEMENT_BYTES
from ftm_backend.tile.builder import Bordered, Buffer, TileBuilder
from ftm_backend.tile.expressions import read_expression, split
from ftm_backend.tile.index import Atom, Expr
from ftm_backend.tile.program import TileProgram
from ftm_backend.tile.tree import Block, Branch, Instruction, Kernel, Loop, Parameter, Parts, Slot, Tile, Use

__all__ = ["TileTextError", "read_tiles"]

_SLOT = re.compile(r"(\w+)(?:\[(.*)\])?$")
_ADDRESS = re.compile(r"(\w+)\[(.*)\]$")
_FOR = re.compile(r"for (\w+) = (.*) \{$")
_HOLE = re.compile(r"\{([^}]*)\}")


class TileTextError(ValueError):
    """Text that is no program at the tile level; the message names the line."""


class _Lines:
    """The lines of a text, without comments and blank lines, and where it was read last."""

    def __init__(self, text: str) -> None:
        stripped = ((number, raw.split("//")[0].strip()) for number, raw in enumerate(text.splitlines(), 1))
        self._rest: Iterator[tuple[int, str]] = iter([entry for entry in stripped if entry[1]])
        self.number, self.line = 0, ""

    def next(self, missing: str) -> str:
        """The next line; raises ``missing`` where the text has ended."""
        entry = next(self._rest, None)
        if entry is None:
            raise TileTextError(missing)
        self.number, self.line = entry
        return self.line

    def __iter__(self) -> Iterator[str]:
        for self.number, self.line in self._rest:
            yield self.line

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Says at which line reading failed."""
        try:
            yield
        except TileTextError:
            raise
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise TileTextError(f"line {self.number}: {self.line!r} cannot be read: {error}") from error


def read_tiles(text: str) -> TileProgram:
    """The program of a text that `text.print_tiles` has printed, or that is written like it.

    Raises:
        TileTextError: with the line that cannot be read.
    """
    program = TileProgram("")
    lines = _Lines(text)
    with lines.reporting():
        for line in lines:
            if line.startswith("@func "):
                name, *marks = [word.strip() for word in line.removeprefix("@func ").split(",")]
                program.functions.append(_Function(name, lines).read())
                if "in_bounds" in marks:
                    program.in_bounds.add(name)
            elif not line.startswith("@stage "):
                _declare(program, line)
    if not program.machine:
        raise TileTextError("the text has no line `@program main, <machine>`")
    return program


def _declare(program: TileProgram, line: str) -> None:
    word, _, rest = line.partition(" ")
    fields = [f.strip() for f in rest.split(",")]
    if word == "@program":
        program.machine = fields[1]
    elif word == "@in":
        program.inputs.append([fields[0], fields[1], _shape(fields[2])])
    elif word == "@scalar":
        program.scalars.append([fields[0], fields[1]])
    elif word == "@out":
        program.outputs.append([fields[0], fields[1], _shape(fields[2]), fields[3] if len(fields) > 3 else ""])
    elif word == "@const":
        program.consts.append([fields[0], fields[1], _shape(fields[2]), fields[3] if len(fields) > 3 else ""])
    elif word == "@arena":
        program.arena.append([fields[0], int(fields[1]), fields[2], _shape(fields[3])])
    else:
        raise ValueError(f"unknown declaration {word}")


def _shape(text: str) -> list[int]:
    return [] if text == "[]" else [int(n) for n in text.split("x")]


class _Function:
    """Reads the lines of one function, up to ``@ret``."""

    def __init__(self, name: str, lines: _Lines) -> None:
        self._lines = lines
        self._builder = TileBuilder(name)
        self._kernel = self._builder.kernel
        self._indices = self._kernel.indices
        self._tiles: dict[str, Tile] = {}
        self._names: dict[str, Atom] = {"core": self._indices.core, "cores": self._indices.cores}
        self._level = 0

    def read(self) -> Kernel:
        """The kernel."""
        self._block(self._kernel.body, ("@ret",), f"@func {self._kernel.name} has no @ret")
        return self._kernel

    def _block(self, block: Block, ends: tuple[str, ...], missing: str) -> str:
        """Reads statements into ``block``; gives which of ``ends`` ends it."""
        for line in self._lines:
            if line in ends:
                return line
            if line in ("@ret", "}", "} else {"):
                raise ValueError(f"{line} ends nothing here; expected {' or '.join(ends)}")
            if line.startswith(("@param ", "@scalar ")):
                self._parameter(line)
            elif line.startswith("@tile "):
                self._tile(line)
            elif line.startswith("for "):
                block.append(self._loop(line))
            elif line.startswith("if "):
                block.append(self._branch(line))
            elif line.startswith("@map "):
                block.append(self._map(line))
            else:
                block.append(self._instruction(line))
        raise TileTextError(f"line {self._lines.number}: {missing}")

    # --- declarations and control --------------------------------------------------------------------------

    def _parameter(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        name, dtype, *more = [w.strip() for w in rest.split(",")]
        if word == "@scalar":
            self._kernel.scalars.append((name, dtype))
        else:
            self._kernel.parameters.append(Parameter(name, dtype, bool(more), more[1] if len(more) > 1 else ""))

    def _tile(self, line: str) -> None:
        name, space, dtype, extents, depth, *offset = [w.strip() for w in line.removeprefix("@tile ").split(",")]
        rows, columns = map(int, extents.split("x"))
        if name in self._tiles:
            raise ValueError(f"tile {name} is declared twice")
        if dtype not in ELEMENT_BYTES:
            raise ValueError(f"{dtype} is no type of a tile; they are {', '.join(ELEMENT_BYTES)}")
        tile = self._tiles[name] = self._builder.tile(dtype, rows, columns, space, int(depth))
        tile.name = name
        if offset:
            tile.offset = int(offset[0])

    def _loop(self, line: str) -> Loop:
        match = _FOR.match(line)
        if match is None:
            raise ValueError("a loop reads `for i1 = 0, 8 {`")
        lower, upper = (self._expr(part) for part in split(match[2]))
        self._level += 1
        counter = self._indices.variable(match[1], self._level, lower.low, max(lower.low, upper.high - 1))
        outside, self._names = self._names, {**self._names, match[1]: counter}
        loop = Loop(counter, lower, upper, [])
        self._block(loop.body, ("}",), f"the loop over {match[1]} has no }}, or the function no @ret")
        self._names = outside
        self._level -= 1
        return loop

    def _branch(self, line: str) -> Branch:
        branch = Branch(self._expr(line.removeprefix("if ").removesuffix("{")), [], [])
        self._level += 1
        if self._block(branch.body, ("}", "} else {"), "an if has no }, or the function no @ret") == "} else {":
            self._block(branch.otherwise, ("}",), "an else has no }, or the function no @ret")
        self._level -= 1
        return branch

    # --- operands ------------------------------------------------------------------------------------------

    def _expr(self, text: str) -> Expr:
        return read_expression(text.strip().strip("{}"), self._indices, self._names)

    def _slot(self, text: str) -> Slot:
        match = _SLOT.match(text.strip())
        if match is None or match[1] not in self._tiles:
            raise ValueError(f"{text} is no slot of a tile of this function")
        return Slot(self._tiles[match[1]], self._expr(match[2] or "0"))

    def _address(self, text: str) -> tuple[Buffer, Expr]:
        match = _ADDRESS.match(text.strip())
        if match is None:
            raise ValueError(f"{text} is no address")
        return Buffer(match[1], "", 0), self._expr(match[2])

    def _dims(self, text: str) -> tuple[list[Expr], list[int], int]:
        extents, strides, rows = [], [], 0
        for side, words in enumerate(text.split(" | ")):
            for word in split(words, " "):
                extent, stride = word.rsplit("@", 1)
                extents.append(self._expr(extent))
                strides.append(int(stride))
                rows += side == 0
        return extents, strides, rows

    def _rows(self, text: str) -> tuple[int, Expr]:
        stride, columns = text.split(" | ")
        return int(stride), self._expr(columns.rsplit("@", 1)[0])

    # --- instructions --------------------------------------------------------------------------------------

    def _instruction(self, line: str) -> Instruction:
        name, _, rest = line.partition(" ")
        word, *suffixes = name.split(".")
        entry = _INSTRUCTIONS.get(word)
        if entry is None:
            raise ValueError(f"unknown instruction {word}")
        operands, legal, build = entry
        given = split(rest)
        if len(given) != operands and operands >= 0:
            raise ValueError(f"{word} takes {operands} operands, found {len(given)}")
        unknown = [s for s in suffixes if s not in legal]
        if unknown:
            raise ValueError(f"{word} does not take .{unknown[0]}")
        made: Instruction | Loop | Branch | None = build(self, given, suffixes)
        if made is None:
            made = self._kernel.body.pop()  # where the builder has put it
        assert isinstance(made, Instruction)
        return made

    def _call(self, operands: list[str], suffixes: list[str]) -> None:
        self._builder.call(operands[0], [self._argument(operand) for operand in operands[1:]])

    def _argument(self, operand: str) -> tuple[str, Expr] | str:
        match = _ADDRESS.match(operand)
        return operand if match is None else (match[1], self._expr(match[2]))

    def _load(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._dims(operands[1])
        self._builder.load(*self._address(operands[0]), *self._slot(operands[2]), extents, strides, rows)

    def _load_bordered(self, operands: list[str], suffixes: list[str]) -> None:
        inside, whole = ([word.split("@") for word in words.split()] for words in operands[2].split(" | "))
        border = [Bordered(int(extent), int(before), int(total)) for (extent, before), (total, _) in zip(inside, whole, strict=True)]
        extents, strides, rows = self._dims(operands[1])
        self._builder.load(*self._address(operands[0]), *self._slot(operands[3]), extents, strides, rows, border)

    def _store(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._dims(operands[2])
        self._builder.store(*self._slot(operands[0]), *self._address(operands[1]), extents, strides, rows)

    def _gather(self, operands: list[str], suffixes: list[str]) -> None:
        self._builder.load_rows(*self._address(operands[0]), *self._slot(operands[1]), *self._slot(operands[3]), *self._rows(operands[2]))

    def _scatter(self, operands: list[str], suffixes: list[str]) -> None:
        self._builder.store_rows(
            *self._slot(operands[0]),
            *self._slot(operands[1]),
            *self._address(operands[2]),
            *self._rows(operands[3]),
            suffixes[0].lower() if suffixes else "set",
        )

    def _slots(self, operands: list[str]) -> list[Any]:
        return [part for text in operands for part in self._slot(text)]

    def _product(self, operands: list[str], suffixes: list[str]) -> None:
        self._builder.mm(*self._slots(operands), acc="ACC" in suffixes, trans_a="TA" in suffixes, trans_b="TB" in suffixes)

    def _windows(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._in_place(operands[1])
        self._builder.windows(*self._slot(operands[0]), extents, strides, rows, *self._slots(operands[2:]), acc="ACC" in suffixes)

    def _window_copy(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._in_place(operands[1])
        self._builder.copy_windows(*self._slot(operands[0]), extents, strides, rows, *self._slot(operands[2]))

    def _in_place(self, text: str) -> tuple[list[Expr], list[Expr], int]:
        """Extents, strides and the number of row dimensions of what is read in place from a slot."""
        extents, strides, rows = [], [], 0
        for side, words in enumerate(text.split(" | ")):
            for word in split(words, " "):
                extent, stride = (self._expr(part) for part in split(word, "@"))
                extents.append(extent)
                strides.append(stride)
                rows += side == 0
        return extents, strides, rows

    def _scan(self, operands: list[str], suffixes: list[str]) -> None:
        if not suffixes or suffixes[0] == "DOWN":
            raise ValueError("SCAN needs to know what it does: .ADD, .MUL, .MIN, .MAX or .LSE")
        self._builder.scan(suffixes[0].lower(), *self._slots(operands), down="DOWN" in suffixes)

    def _load_index(self, operands: list[str], suffixes: list[str]) -> Instruction:
        buffer, at = self._address(operands[0])
        loaded = self._indices.variable(operands[1], self._level, -inf, inf)
        self._names = {**self._names, operands[1]: loaded}
        parts: Parts = ["SLDI ", f"{buffer.symbol}[", Use(at, address=True), "], "]
        return Instruction("index", parts, result=loaded, from_memory=(buffer.symbol,))

    def _map(self, line: str) -> Instruction:
        header, arrow, results = line.removeprefix("@map ").partition(" -> ")
        size, *inputs = split(header)
        rows, columns = size.split(" x ")
        parts: Parts = ["@map ", Use(self._expr(rows)), " x ", Use(self._expr(columns))]
        reads, writes = [], []
        for text in inputs:
            slot, register = text.rsplit(":", 1)
            reads.append(self._slot(slot))
            parts += [", ", reads[-1], f":{register}"]
        for text in split(results) if arrow else []:
            slot, register = text.rsplit(":", 1)
            writes.append(self._slot(slot))
            parts += [" -> " if len(writes) == 1 else ", ", writes[-1], f":{register}"]
            if register.endswith(".acc"):
                reads.append(writes[-1])
        gathers: list[str] = []
        parts.append("\n")
        missing = f"line {self._lines.number}: {line!r} has no @endmap"
        while (body := self._lines.next(missing)) != "@endmap":
            if body.startswith("VGA."):
                gathers.append(body.split()[1].split("[")[0])
            parts += self._holes(f"      {body}\n")
        parts.append("    @endmap")
        return Instruction("compute", parts, reads, writes, from_memory=tuple(gathers))

    def _holes(self, text: str) -> Parts:
        parts: Parts = []
        at = 0
        for match in _HOLE.finditer(text):
            parts += [text[at : match.start()], Use(self._expr(match[1]))]
            at = match.end()
        return [*parts, text[at:]]


Build = Callable[[_Function, list[str], list[str]], "Instruction | None"]

_INSTRUCTIONS: dict[str, tuple[int, tuple[str, ...], Build]] = {
    # operands (-1: any number), suffixes, how it is built; what gives None is built by the builder
    "DLD": (3, (), _Function._load),
    "DLB": (4, (), _Function._load_bordered),
    "DST": (3, (), _Function._store),
    "DGA": (4, (), _Function._gather),
    "DSC": (4, ("ADD", "MUL", "MIN", "MAX"), _Function._scatter),
    "SLDI": (2, (), _Function._load_index),
    "MM": (3, ("TA", "TB", "ACC"), _Function._product),
    "MMW": (4, ("ACC",), _Function._windows),
    "DCP": (2, (), lambda f, operands, _: f._builder.copy(*f._slots(operands))),
    "DCW": (3, (), _Function._window_copy),
    "TRANS": (2, ("ZIP",), lambda f, operands, suffixes: f._builder.transpose(*f._slots(operands), zipped="ZIP" in suffixes)),
    "SCAN": (3, ("ADD", "MUL", "MIN", "MAX", "LSE", "DOWN"), _Function._scan),
    "SORT": (2, (), lambda f, operands, _: f._builder.sort(*f._slots(operands))),
    "MERGE": (3, (), lambda f, operands, _: f._builder.merge(*f._slots(operands))),
    "@call": (-1, (), _Function._call),
    "BARRIER": (0, (), lambda f, operands, _: f._builder.barrier()),
    "DWAIT": (1, (), lambda f, operands, _: Instruction("wait", ["DWAIT ", f._slot(operands[0])])),
    "DWAITALL": (0, (), lambda f, operands, _: Instruction("waitall", ["DWAITALL"])),
}
