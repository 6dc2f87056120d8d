"""Symbol table: names of header lines, functions, tiles and labels, checked and numbered.

This is the first half of assembling. Errors in declarations are detected here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ftm_backend.assembler.image_layout import MOST_BYTES
from ftm_backend.ir.asm import operand_parser
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.errors import AsmError
from ftm_backend.target import presets
from ftm_backend.target.element_types import (
    BY_TOKEN,
    SLOT_ALIGNMENT,
    SPACES,
    ElementType,
    slot_bytes,
)

_KIND_ORDER = ("in", "out", "const", "arena", "gsm")
_MOST_EXTENTS = (1 << 16) - 1  # the image counts them in 16 bits; PyTorch has no limit


@dataclass(frozen=True, slots=True)
class TileSymbol:
    """A declared tile with its number in the image."""

    number: int
    tile: p.TileDirective
    type: ElementType
    function: int
    slot_bytes: int


@dataclass(frozen=True, slots=True)
class BufferSymbol:
    """A declared buffer with its number in the image; ``alias`` is the input's number or -1."""

    number: int
    buffer: p.BufferDirective
    type: ElementType
    alias: int


@dataclass(frozen=True, slots=True)
class ParameterTable:
    """A function's parameters by name, numbered as the program's buffers and scalars are."""

    buffers: dict[str, BufferSymbol]
    scalars: dict[str, tuple[int, str]]


class ErrorReporter:
    """Makes errors that show the line of the text."""

    def __init__(self, program: p.AsmProgram) -> None:
        self._source = program.source

    def error(self, message: str, line: int, operand: int | None = None) -> AsmError:
        """Make an error at ``line``; the caret points at operand number ``operand``."""
        source = self._source[line - 1] if 0 < line <= len(self._source) else ""
        column = 0
        if source:
            column = (
                operand_parser.mnemonic_column(source)
                if operand is None
                else operand_parser.operand_column(source, operand)
            )
        return AsmError(message, line, column, source)


class SymbolTable:
    """The numbered declarations of a program.

    Raises:
        AsmError: The declarations are inconsistent.
    """

    def __init__(self, program: p.AsmProgram) -> None:
        self.program = program
        self.report = ErrorReporter(program)
        self.buffers: dict[str, BufferSymbol] = {}
        self.scalars: dict[str, tuple[int, str]] = {}
        self.functions: dict[str, int] = {}
        self.parameters: list[ParameterTable] = []
        self.tile_count = 0
        self._lines: dict[str, int] = {}
        try:
            self.machine = presets.load(program.machine)
        except presets.UnknownPreset as error:
            raise self.report.error(str(error), program.line, 1) from None
        self._declare_header()
        self._declare_functions()

    def _declare(self, name: str, line: int) -> None:
        if name in self._lines:
            raise self.report.error(
                f"{name!r} is declared twice; first on line {self._lines[name]}", line, 0
            )
        self._lines[name] = line

    def _type(self, token: str, line: int, operand: int) -> ElementType:
        element = BY_TOKEN.get(token)
        if element is None:
            raise self.report.error(
                f"unknown type {token!r}; types are {' '.join(BY_TOKEN)}", line, operand
            )
        return element

    def _declare_header(self) -> None:
        for kind in _KIND_ORDER:
            for buffer in self.program.buffers(kind):
                self._declare(buffer.name, buffer.line)
                element = self._type(
                    buffer.dtype, buffer.line, 2 if kind in ("arena", "gsm") else 1
                )
                self._check_buffer(buffer, element)
                alias = self._alias(buffer) if buffer.alias else -1
                self.buffers[buffer.name] = BufferSymbol(len(self.buffers), buffer, element, alias)
        for argument in self.program.scalars():
            self._declare(argument.name, argument.line)
            if argument.dtype not in ("f64", "i64"):
                raise self.report.error(
                    f"a scalar argument is f64 or i64, not {argument.dtype!r}", argument.line, 1
                )
            self.scalars[argument.name] = len(self.scalars), argument.dtype

    def _check_buffer(self, buffer: p.BufferDirective, element: ElementType) -> None:
        size = buffer.elements * element.bytes
        if buffer.offset + size >= MOST_BYTES or len(buffer.shape) > _MOST_EXTENTS:
            raise self.report.error(
                f"{buffer.name} is larger than any memory: {len(buffer.shape)} extents, "
                f"{size} bytes",
                buffer.line,
                2,
            )
        if buffer.kind == "const" and len(buffer.data) != size:
            raise self.report.error(
                f"constant {buffer.name} has {len(buffer.data)} bytes of data, but its shape and "
                f"type make {size}",
                buffer.line,
                3,
            )
        if buffer.kind == "arena" and (buffer.offset < 0 or buffer.offset % element.bytes):
            raise self.report.error(
                f"arena offset {buffer.offset} of {buffer.name} is not a multiple of its "
                f"{element.bytes}-byte elements",
                buffer.line,
                1,
            )
        if buffer.kind == "gsm":
            self._check_region(buffer, buffer.offset + size)

    def _check_region(self, buffer: p.BufferDirective, end: int) -> None:
        """Check that a region of GSM is aligned and ends within GSM."""
        if buffer.offset < 0 or buffer.offset % SLOT_ALIGNMENT:
            raise self.report.error(
                f"byte offset {buffer.offset} must be a multiple of {SLOT_ALIGNMENT}",
                buffer.line,
                1,
            )
        if end > self.machine.gsm_bytes:
            raise self.report.error(
                f"{buffer.name} ends at byte {end} of gsm, which has {self.machine.gsm_bytes} "
                f"bytes on machine {self.machine.name}: use a lower offset, or put it into the "
                "arena",
                buffer.line,
                1,
            )

    def _alias(self, buffer: p.BufferDirective) -> int:
        target = self.buffers.get(buffer.alias)
        if target is None or target.buffer.kind != "in":
            raise self.report.error(
                f"output {buffer.name} names {buffer.alias!r}, which is no input", buffer.line, 3
            )
        same = target.buffer.elements == buffer.elements and target.buffer.dtype == buffer.dtype
        if not same:
            raise self.report.error(
                f"output {buffer.name} cannot share the storage of {buffer.alias}: type or number "
                "of elements differ",
                buffer.line,
                3,
            )
        return target.number

    def _declare_functions(self) -> None:
        self._buffer_count, self._scalar_count = len(self.buffers), len(self.scalars)
        for function in self.code():
            if function.name in self.functions:
                raise self.report.error(
                    f"function {function.name!r} is defined twice", function.line, 0
                )
            self.functions[function.name] = len(self.functions)
            self.parameters.append(self._declare_parameters(function))
        if "main" not in self.functions:
            raise self.report.error(
                "the program has no @func main, where execution starts", self.program.line
            )

    def _declare_parameters(self, function: p.AsmFunction) -> ParameterTable:
        found = ParameterTable({}, {})
        if function.name == "main" and function.parameters:
            raise self.report.error(
                "main has no parameters: what it works on is in the header",
                function.parameters[0].line,
            )
        for item in function.parameters:
            if item.name in found.buffers or item.name in found.scalars or item.name in self._lines:
                raise self.report.error(f"{item.name!r} is declared twice", item.line, 0)
            if item.scalar:
                if item.dtype not in ("f64", "i64"):
                    raise self.report.error(
                        f"a scalar parameter is f64 or i64, not {item.dtype!r}", item.line, 1
                    )
                found.scalars[item.name] = self._scalar_count, item.dtype
                self._scalar_count += 1
                continue
            if item.alias and item.alias not in found.buffers:
                raise self.report.error(
                    f"{item.name!r} may share memory with {item.alias!r}, which is no buffer "
                    "parameter before it",
                    item.line,
                    3,
                )
            element = self._type(item.dtype, item.line, 1)
            buffer = p.BufferDirective(
                "param", item.name, item.dtype, (), offset=int(item.out), line=item.line
            )
            found.buffers[item.name] = BufferSymbol(self._buffer_count, buffer, element, -1)
            self._buffer_count += 1
        return found

    def code(self) -> Iterable[p.AsmFunction]:
        """Return the functions in the order of their numbers."""
        return (f for f in self.program.functions if isinstance(f, p.AsmFunction))

    def declare_tiles(self, function: p.AsmFunction) -> dict[str, TileSymbol]:
        """Number the tiles of one function, and check that each fits its scratchpad."""
        number = self.functions[function.name]
        parameters = self.parameters[number]
        found: dict[str, TileSymbol] = {}
        for tile in function.items:
            if not isinstance(tile, p.TileDirective):
                continue
            if (
                tile.name in found
                or tile.name in self._lines
                or tile.name in parameters.buffers
                or tile.name in parameters.scalars
            ):
                raise self.report.error(f"{tile.name!r} is declared twice", tile.line, 0)
            found[tile.name] = self._tile(tile, number)
            self.tile_count += 1
        return found

    def _tile(self, tile: p.TileDirective, function: int) -> TileSymbol:
        error = self.report.error
        if tile.space not in SPACES or tile.space == "ddr":
            raise error(f"unknown scratchpad {tile.space!r}: use am, sm or gsm", tile.line, 1)
        element = self._type(tile.dtype, tile.line, 2)
        if tile.rows < 1 or tile.columns < 1:
            raise error(
                f"tile extents {tile.rows}x{tile.columns} must be at least 1x1", tile.line, 3
            )
        if not 1 <= tile.depth <= 65535:
            raise error(f"ring depth {tile.depth} must be at least 1", tile.line, 4)
        if tile.offset < 0 or tile.offset % SLOT_ALIGNMENT:
            raise error(
                f"byte offset {tile.offset} must be a multiple of {SLOT_ALIGNMENT}", tile.line, 5
            )
        slot = slot_bytes(tile.rows, tile.columns, element.bytes)
        end = tile.offset + slot * tile.depth
        capacity = self.machine.scratchpad_bytes(tile.space)
        if end > capacity:
            raise error(
                f"tile {tile.name} ends at byte {end} of {tile.space}, which has {capacity} bytes "
                f"on machine {self.machine.name}: use smaller extents, a smaller ring or a lower "
                "offset",
                tile.line,
                5,
            )
        return TileSymbol(self.tile_count, tile, element, function, slot)

    def labels(
        self, function: p.AsmFunction, first: int
    ) -> tuple[dict[str, int], list[tuple[p.Label, int]]]:
        """Return the instruction numbers of a function's labels; its code starts at ``first``."""
        numbers: dict[str, int] = {}
        listed = []
        position = first
        for item in function.items:
            if isinstance(item, p.Label):
                if item.name in numbers:
                    raise self.report.error(
                        f"label {item.name!r} is defined twice in {function.name}", item.line
                    )
                if item.bounds and not 0 <= item.bounds[0] <= item.bounds[1] < 1 << 63:
                    raise self.report.error(
                        f"trip count bounds {item.bounds[0]}, {item.bounds[1]} are not ordered",
                        item.line,
                        0,
                    )
                numbers[item.name] = position
                listed.append((item, position))
            elif isinstance(item, p.AsmInstruction):
                position += 1
        return numbers, listed
