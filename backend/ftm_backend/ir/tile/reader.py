"""Parses the text of tile IR: declarations, functions, loops and branches; see ``printer``."""

from __future__ import annotations

import re

from ftm_backend.ir.asm import directive_parser
from ftm_backend.ir.tile.index_parser import split
from ftm_backend.ir.tile.instruction_reader import InstructionReader, LineReader, TileTextError
from ftm_backend.ir.tile.kernel_tree import Block, TileBranch, TileKernel, TileLoop
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["TileTextError", "read_tiles"]

_FOR = re.compile(r"for (\w+) = (.*) \{$")


def read_tiles(text: str) -> TileProgram:
    """Parse a program of tile IR.

    Raises:
        TileTextError: The message has the line that cannot be parsed.
    """
    program = TileProgram("")
    lines = LineReader(text)
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
    word, _, operands = line.partition(" ")
    fields = [f.strip() for f in operands.split(",")]
    if word == "@program":
        program.machine = directive_parser.program(fields).machine
    else:
        program.header.append(directive_parser.header(word, fields))


class _Function(InstructionReader):
    """Parses the lines of one function, up to ``@ret``."""

    def read(self) -> TileKernel:
        """Parse the function."""
        self._block(self._kernel.body, ("@ret",), f"@func {self._kernel.name} has no @ret")
        return self._kernel

    def _block(self, block: Block, ends: tuple[str, ...], missing: str) -> str:
        """Parse statements into ``block``; return the one of ``ends`` that ends it."""
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
                block.append(self.map(line))
            else:
                block.append(self.instruction(line))
        raise TileTextError(f"line {self._lines.number}: {missing}")

    # --- declarations and control
    # --------------------------------------------------------------------------

    def _parameter(self, line: str) -> None:
        word, _, operands = line.partition(" ")
        words = [w.strip() for w in operands.split(",")]
        self._kernel.parameters.append(directive_parser.parameter(word, words))

    def _tile(self, line: str) -> None:
        name, space, dtype, extents, depth, *offset = [
            w.strip() for w in line.removeprefix("@tile ").split(",")
        ]
        rows, columns = map(int, extents.split("x"))
        if name in self._tiles:
            raise ValueError(f"tile {name} is declared twice")
        if dtype not in ELEMENT_BYTES:
            raise ValueError(f"{dtype} is no tile type; tile types: {', '.join(ELEMENT_BYTES)}")
        tile = self._tiles[name] = self._builder.tile(dtype, rows, columns, space, int(depth))
        tile.name = name
        if offset:
            tile.offset = int(offset[0])

    def _loop(self, line: str) -> TileLoop:
        match = _FOR.match(line)
        if match is None:
            raise ValueError("a loop reads `for i1 = 0, 8 {`")
        lower, upper = (self._expr(part) for part in split(match[2]))
        self._level += 1
        counter = self._indices.variable(
            match[1], self._level, lower.low, max(lower.low, upper.high - 1)
        )
        outside, self._names = self._names, {**self._names, match[1]: counter}
        loop = TileLoop(counter, lower, upper, [])
        self._block(
            loop.body, ("}",), f"the loop over {match[1]} has no }}, or the function no @ret"
        )
        self._names = outside
        self._level -= 1
        return loop

    def _branch(self, line: str) -> TileBranch:
        branch = TileBranch(self._expr(line.removeprefix("if ").removesuffix("{")), [], [])
        self._level += 1
        if (
            self._block(branch.body, ("}", "} else {"), "an if has no }, or the function no @ret")
            == "} else {"
        ):
            self._block(branch.otherwise, ("}",), "an else has no }, or the function no @ret")
        self._level -= 1
        return branch
