"""Parses the instructions of a function of tile IR; see ``printer``.

The instruction table has the kind of each operand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from ftm_backend.ir.asm import operand_parser
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.map_operands import map_input, map_output
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.index_expr import Atom, Expr
from ftm_backend.ir.tile.index_parser import read_expression, split
from ftm_backend.ir.tile.kernel_tree import (
    EFFECTS,
    Address,
    MapOperand,
    MapOperation,
    Slot,
    TileDecl,
    TileInstruction,
    TileOperand,
)
from ftm_backend.target import instruction as i
from ftm_backend.target.instruction_table import BY_NAME

_SLOT = re.compile(r"(\w+)(?:\[(.*)\])?$")
_ADDRESS = re.compile(r"(\w+)\[(.*)\]$")


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

    def _address(self, text: str) -> Address:
        match = _ADDRESS.match(text.strip())
        if match is None:
            raise ValueError(f"{text} is no address")
        return Address(match[1], self._expr(match[2]))

    def _dims(self, text: str) -> p.Dims[Expr]:
        rows, bar, columns = text.partition(" | ")
        if not bar:
            raise ValueError(
                "a transfer needs at least one row and one column dimension, as in 4@8 | 8@1"
            )
        return p.Dims(self._side(rows), self._side(columns))

    def _row_dims(self, text: str) -> p.Dims[Expr]:
        stride, bar, columns = text.partition(" | ")
        if not bar:
            raise ValueError("a transfer of rows needs a stride and a column dimension: 8 | 8@1")
        return p.Dims((), self._side(columns), self._expr(stride))

    def _side(self, text: str) -> tuple[tuple[Expr, Expr], ...]:
        pairs = []
        for word in split(text, " "):
            extent, stride = (self._expr(part) for part in split(word, "@"))
            pairs.append((extent, stride))
        return tuple(pairs)

    def _variable(self, text: str) -> Atom:
        """Define the variable that an instruction writes."""
        loaded = self._indices.variable(text, self._level, -inf, inf)
        self._names = {**self._names, text: loaded}
        return loaded

    def _argument(self, text: str) -> TileOperand:
        return self._address(text) if text.endswith("]") else p.SymbolName(text)

    def _operand(self, kind: str, text: str) -> TileOperand:
        if kind == i.SLOT:
            return self._slot(text)
        if kind == i.ADDRESS:
            return self._address(text)
        if kind in (i.DIMS, i.SIDES):
            return self._dims(text)
        if kind == i.ROW_DIMS:
            return self._row_dims(text)
        if kind == i.SCALAR:
            is_name = text.isidentifier() and text not in self._names
            return p.SymbolName(text) if is_name else self._expr(text)
        return self._variable(text)  # the destination of SLDI

    # --- instructions
    # --------------------------------------------------------------------------------------

    def instruction(self, line: str) -> TileInstruction:
        """Parse an instruction on one line.

        Raises:
            ValueError: Its name, suffixes or operands are wrong.
        """
        mnemonic, _, rest = line.partition(" ")
        word, *suffixes = mnemonic.split(".")
        given = split(rest)
        if word == "@call":
            callee, *arguments = given
            bound = map(self._argument, arguments)
            return TileInstruction(
                word, (p.SymbolName(operand_parser.name(callee, "a function")), *bound)
            )
        if word not in EFFECTS:
            raise ValueError(f"unknown instruction {word}")
        row = BY_NAME[word]
        if len(given) != len(row.operands):
            raise ValueError(f"{word} takes {len(row.operands)} operands, found {len(given)}")
        legal = [w for s in row.suffixes for w in ((s,) if isinstance(s, str) else s)]
        unknown = [s for s in suffixes if s not in legal]
        if unknown:
            raise ValueError(f"{word} does not take .{unknown[0]}")
        if word == "SCAN" and suffixes in ([], ["DOWN"]):
            raise ValueError("SCAN needs an operation: .ADD, .MUL, .MIN, .MAX or .LSE")
        operands = (self._operand(o.kind, t) for o, t in zip(row.operands, given, strict=True))
        return TileInstruction(word, tuple(operands), tuple(suffixes))

    def map(self, line: str) -> TileInstruction:
        """Parse an ``@map`` block, whose body is on the following lines."""
        header, arrow, results = line.removeprefix("@map ").partition(" -> ")
        size, *inputs = split(header)
        rows, columns = size.split(" x ")
        operands: list[TileOperand] = [self._expr(rows), self._expr(columns)]
        operands += (map_input(text, self._slot) for text in inputs)
        operands += (map_output(text, self._slot) for text in split(results) if arrow)
        body = []
        missing = f"line {self._lines.number}: {line!r} has no @endmap"
        while (text := self._lines.next(missing)) != "@endmap":
            if text == "@ret":
                raise TileTextError(missing)
            body.append(self._operation(text))
        return TileInstruction("@map", tuple(operands), body=tuple(body))

    def _operation(self, line: str) -> MapOperation:
        mnemonic, _, rest = line.partition(" ")
        word, *suffixes = mnemonic.split(".")
        row = BY_NAME.get(word)
        if row is None or not row.in_map:
            raise ValueError(f"{word} is no operation of maps")
        return MapOperation(word, tuple(map(self._map_operand, split(rest))), tuple(suffixes))

    def _map_operand(self, text: str) -> MapOperand:
        if text.startswith("{") and not text.startswith("{="):
            return self._expr(text)
        operand = operand_parser.operand(text)
        if isinstance(operand, (p.Register, p.Dims, p.MapInput, p.MapOutput)):
            raise ValueError(f"{text} is no operand of a map operation")
        return operand
