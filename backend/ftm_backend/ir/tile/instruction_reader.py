"""Parses the instructions of a function of tile IR by building them; see ``printer``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from ftm_backend.ir.tile.builder import BufferAddress, PaddedDim, TileBuilder
from ftm_backend.ir.tile.index_expr import Atom, Expr
from ftm_backend.ir.tile.index_parser import read_expression, split
from ftm_backend.ir.tile.kernel_tree import (
    IndexUse,
    Parts,
    Slot,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileLoop,
)

__all__ = ["InstructionReader", "LineReader", "TileTextError"]

_SLOT = re.compile(r"(\w+)(?:\[(.*)\])?$")
_ADDRESS = re.compile(r"(\w+)\[(.*)\]$")
_INDEX_USE = re.compile(r"\{([^}]*)\}")


class TileTextError(ValueError):
    """A text is no program of tile IR; the message names the line."""


class LineReader:
    """The lines of a text without comments and blank lines, and the current line."""

    def __init__(self, text: str) -> None:
        stripped = (
            (number, raw.split("//")[0].strip()) for number, raw in enumerate(text.splitlines(), 1)
        )
        self._lines: Iterator[tuple[int, str]] = iter([entry for entry in stripped if entry[1]])
        self.number, self.line = 0, ""

    def next(self, missing: str) -> str:
        """Return the next line; raise TileTextError(``missing``) at the end of the text."""
        entry = next(self._lines, None)
        if entry is None:
            raise TileTextError(missing)
        self.number, self.line = entry
        return self.line

    def __iter__(self) -> Iterator[str]:
        for self.number, self.line in self._lines:
            yield self.line

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Add the current line to errors that are raised inside."""
        try:
            yield
        except TileTextError:
            raise
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise TileTextError(
                f"line {self.number}: {self.line!r} cannot be read: {error}"
            ) from error


class InstructionReader:
    """Parses instructions in the scope of a function.

    The scope has the function's tiles, loop counters and loaded integers that are defined so far.
    """

    def __init__(self, name: str, lines: LineReader) -> None:
        self._lines = lines
        self._builder = TileBuilder(name)
        self._kernel = self._builder.kernel
        self._indices = self._kernel.indices
        self._tiles: dict[str, TileDecl] = {}
        self._names: dict[str, Atom] = {"core": self._indices.core, "cores": self._indices.cores}
        self._level = 0

    # --- operands
    # ------------------------------------------------------------------------------------------

    def _expr(self, text: str) -> Expr:
        return read_expression(text.strip().strip("{}"), self._indices, self._names)

    def _slot(self, text: str) -> Slot:
        match = _SLOT.match(text.strip())
        if match is None or match[1] not in self._tiles:
            raise ValueError(f"{text} is no slot of a tile of this function")
        return Slot(self._tiles[match[1]], self._expr(match[2] or "0"))

    def _address(self, text: str) -> tuple[BufferAddress, Expr]:
        match = _ADDRESS.match(text.strip())
        if match is None:
            raise ValueError(f"{text} is no address")
        return BufferAddress(match[1], "", 0), self._expr(match[2])

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

    # --- instructions
    # --------------------------------------------------------------------------------------

    def instruction(self, line: str) -> TileInstruction:
        """Parse an instruction on one line.

        Raises:
            ValueError: Its name, suffixes or operands are wrong.
        """
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
        parsed: TileInstruction | TileLoop | TileBranch | None = build(self, given, suffixes)
        if parsed is None:
            parsed = self._kernel.body.pop()  # the builder has appended it there
        assert isinstance(parsed, TileInstruction)
        return parsed

    def _call(self, operands: list[str], suffixes: list[str]) -> None:
        self._builder.call(operands[0], [self._argument(operand) for operand in operands[1:]])

    def _argument(self, operand: str) -> tuple[str, Expr] | str:
        match = _ADDRESS.match(operand)
        return operand if match is None else (match[1], self._expr(match[2]))

    def _load(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._dims(operands[1])
        self._builder.load(
            *self._address(operands[0]), *self._slot(operands[2]), extents, strides, rows
        )

    def _load_bordered(self, operands: list[str], suffixes: list[str]) -> None:
        inside, whole = (
            [word.split("@") for word in words.split()] for words in operands[2].split(" | ")
        )
        border = [
            PaddedDim(int(extent), int(before), int(total))
            for (extent, before), (total, _) in zip(inside, whole, strict=True)
        ]
        extents, strides, rows = self._dims(operands[1])
        self._builder.load(
            *self._address(operands[0]), *self._slot(operands[3]), extents, strides, rows, border
        )

    def _store(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._dims(operands[2])
        self._builder.store(
            *self._slot(operands[0]), *self._address(operands[1]), extents, strides, rows
        )

    def _gather(self, operands: list[str], suffixes: list[str]) -> None:
        self._builder.load_rows(
            *self._address(operands[0]),
            *self._slot(operands[1]),
            *self._slot(operands[3]),
            *self._rows(operands[2]),
        )

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
        self._builder.mm(
            *self._slots(operands),
            acc="ACC" in suffixes,
            trans_a="TA" in suffixes,
            trans_b="TB" in suffixes,
        )

    def _windows(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._in_place(operands[1])
        self._builder.mm_windows(
            *self._slot(operands[0]),
            extents,
            strides,
            rows,
            *self._slots(operands[2:]),
            acc="ACC" in suffixes,
        )

    def _window_copy(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, rows = self._in_place(operands[1])
        self._builder.copy_windows(
            *self._slot(operands[0]), extents, strides, rows, *self._slot(operands[2])
        )

    def _fold(self, operands: list[str], suffixes: list[str]) -> None:
        extents, strides, _ = self._in_place(operands[1])
        self._builder.fold(*self._slot(operands[0]), extents, strides, *self._slot(operands[2]))

    def _in_place(self, text: str) -> tuple[list[Expr], list[Expr], int]:
        """Parse a strided view of a slot: extents, strides and the number of row dimensions."""
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
            raise ValueError("SCAN needs an operation: .ADD, .MUL, .MIN, .MAX or .LSE")
        self._builder.scan(suffixes[0].lower(), *self._slots(operands), down="DOWN" in suffixes)

    def _load_index(self, operands: list[str], suffixes: list[str]) -> TileInstruction:
        buffer, at = self._address(operands[0])
        loaded = self._indices.variable(operands[1], self._level, -inf, inf)
        self._names = {**self._names, operands[1]: loaded}
        parts: Parts = ["SLDI ", f"{buffer.symbol}[", IndexUse(at, address=True), "], "]
        return TileInstruction("index", parts, result=loaded, from_memory=(buffer.symbol,))

    def map(self, line: str) -> TileInstruction:
        """Parse an ``@map`` block, whose body is on the following lines."""
        header, arrow, results = line.removeprefix("@map ").partition(" -> ")
        size, *inputs = split(header)
        rows, columns = size.split(" x ")
        parts: Parts = ["@map ", IndexUse(self._expr(rows)), " x ", IndexUse(self._expr(columns))]
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
            parts += self._index_uses(f"      {body}\n")
        parts.append("    @endmap")
        return TileInstruction("compute", parts, reads, writes, from_memory=tuple(gathers))

    def _index_uses(self, text: str) -> Parts:
        parts: Parts = []
        at = 0
        for match in _INDEX_USE.finditer(text):
            parts += [text[at : match.start()], IndexUse(self._expr(match[1]))]
            at = match.end()
        return [*parts, text[at:]]


Build = Callable[[InstructionReader, list[str], list[str]], "TileInstruction | None"]
"""Takes operands and suffixes; returns the instruction, or None if the builder has appended it."""

_INSTRUCTIONS: dict[str, tuple[int, tuple[str, ...], Build]] = {
    # number of operands (-1: any), suffixes, build function
    "DLD": (3, (), InstructionReader._load),
    "DLB": (4, (), InstructionReader._load_bordered),
    "DST": (3, (), InstructionReader._store),
    "DGA": (4, (), InstructionReader._gather),
    "DSC": (4, ("ADD", "MUL", "MIN", "MAX"), InstructionReader._scatter),
    "SLDI": (2, (), InstructionReader._load_index),
    "MM": (3, ("TA", "TB", "ACC"), InstructionReader._product),
    "MMW": (4, ("ACC",), InstructionReader._windows),
    "DCP": (2, (), lambda f, operands, _: f._builder.copy(*f._slots(operands))),
    "DCW": (3, (), InstructionReader._window_copy),
    "TRANS": (
        2,
        ("ZIP",),
        lambda f, operands, suffixes: f._builder.transpose(
            *f._slots(operands), zipped="ZIP" in suffixes
        ),
    ),
    "FOLD": (3, (), InstructionReader._fold),
    "SCAN": (3, ("ADD", "MUL", "MIN", "MAX", "LSE", "DOWN"), InstructionReader._scan),
    "SORT": (2, (), lambda f, operands, _: f._builder.sort(*f._slots(operands))),
    "MERGE": (3, (), lambda f, operands, _: f._builder.merge(*f._slots(operands))),
    "@call": (-1, (), InstructionReader._call),
    "BARRIER": (0, (), lambda f, operands, _: f._builder.barrier()),
    "DWAIT": (
        1,
        (),
        lambda f, operands, _: TileInstruction("wait", ["DWAIT ", f._slot(operands[0])]),
    ),
    "DWAITALL": (0, (), lambda f, operands, _: TileInstruction("waitall", ["DWAITALL"])),
}
