"""Writes an image: encodes declarations, instructions and maps into sections (``image_layout``)."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ftm_backend.assembler import image_layout
from ftm_backend.assembler.image_layout import NONE
from ftm_backend.assembler.instruction_encoder import InstructionEncoder
from ftm_backend.assembler.map_encoder import MapEncoder
from ftm_backend.assembler.object_files import Bases, ObjectFile, make_object
from ftm_backend.assembler.section_writer import Relocation, SectionWriter
from ftm_backend.assembler.symbol_table import SymbolTable
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.parser import parse
from ftm_backend.ir.asm.printer import lay_out
from ftm_backend.symbolic import ceildiv, current_env, sym_max
from ftm_backend.target import instruction_table
from ftm_backend.target.element_types import MEMORY_ALIGNMENT, SPACES
from ftm_backend.target.instruction_table import OPCODES

_ZEROS = (0, NONE, NONE) * 4
_SIZES = {
    name: record.size
    for name, record in image_layout.SECTIONS
    if isinstance(record, image_layout.LayoutRecord)
}
_BUFFER_NUMBER = {"in": 0, "out": 1, "const": 2, "arena": 3, "gsm": 4, "param": 5}


def assemble(program: p.AsmProgram | str, *, with_text: bool = True) -> bytes:
    """Assemble a program.

    Args:
        program: The program as records or as text.
        with_text: Include the text, which lets the machine show lines in its messages.

    Returns:
        The image.

    Raises:
        AsmError: The program is wrong; the message has line, column and the line itself.
    """
    return link(program, with_text=with_text).image


def link(program: p.AsmProgram | str, *, with_text: bool = True) -> LinkedImage:
    """Assemble a program that may have symbolic sizes; the arguments are those of `assemble`."""
    if isinstance(program, str):
        program = parse(program)
    elif not program.source:
        lay_out(program)  # for error messages and listings
    return _Assembler(program).run(with_text)


def verify(program: p.AsmProgram | str) -> None:
    """Check everything that `assemble` checks; raise AsmError."""
    assemble(program, with_text=False)


class LinkedImage(NamedTuple):
    """An image for the hints of symbolic sizes, and where these sizes are in it."""

    image: bytes
    relocations: list[Relocation]


class _Strings:
    def __init__(self) -> None:
        self.blob = bytearray()
        self._offsets: dict[str, int] = {}

    def add(self, text: str) -> int:
        offset = self._offsets.get(text)
        if offset is None:
            offset = self._offsets[text] = len(self.blob)
            self.blob += text.encode() + b"\0"
        return offset


class _Assembler:
    def __init__(self, program: p.AsmProgram) -> None:
        self.program = program
        self.symbols = SymbolTable(program)
        self.strings = _Strings()
        self.encoder = InstructionEncoder(self.symbols)
        self.maps = MapEncoder(self.encoder)
        self.code = self.encoder.code
        self.functions = SectionWriter(image_layout.FUNCTION)
        self.labels, self.tiles = (
            SectionWriter(image_layout.LABEL),
            SectionWriter(image_layout.TILE),
        )
        self.collected = {
            "tiles": self.tiles,
            "instructions": self.code,
            "dims": self.encoder.dims,
            "maps": self.maps.maps,
            "map_inputs": self.maps.inputs,
            "map_outputs": self.maps.outputs,
            "map_ops": self.maps.ops,
            "labels": self.labels,
        }

    def run(self, with_text: bool) -> LinkedImage:
        for function in self.symbols.code():
            self._function(function)
        self._refuse_recursion()
        # In units of the alignment: rounded ends of symbolic sizes can be compared more often.
        ends = (
            b.buffer.offset
            + ceildiv(b.buffer.elements * b.type.bytes, MEMORY_ALIGNMENT) * MEMORY_ALIGNMENT
            for b in self.symbols.buffers.values()
            if b.buffer.kind == "arena"
        )
        arena = functools.reduce(sym_max, ends, 0)
        buffers, shapes, data = self._buffers()
        text = "\n".join(self.program.source).encode(errors="replace") if with_text else b""
        sections = {
            **self.collected,
            "buffers": buffers,
            "scalars": self._scalars(),
            "shapes": shapes,
            "functions": self.functions,
            "arguments": self.encoder.arguments,
            "immediates": self.maps.immediates.bits,
        }
        header = (
            self.strings.add(self.program.name),
            self.strings.add(self.program.machine),
            self.symbols.functions["main"],
            len(self.program.buffers("in")),
            len(self.program.buffers("out")),
            len(self.symbols.scalars),
            arena,
        )
        blobs = {
            "strings": bytes(self.strings.blob),
            "const_data": data,
            "text": text,
            "call_ops": b"",
        }
        return _link(sections, blobs, header)

    def _function(self, function: p.AsmFunction) -> None:
        number = self.symbols.functions[function.name]
        parameters = self.symbols.parameters[number]
        buffers = [symbol.number for symbol in parameters.buffers.values()]
        scalars = [scalar for scalar, _ in parameters.scalars.values()]
        starts = {name: len(records) for name, records in self.collected.items()}
        bases = starts | {
            "function": number,
            "line": function.line,
            "buffers": buffers[0] if buffers else len(self.symbols.buffers),
            "scalars": scalars[0] if scalars else len(self.symbols.scalars),
        }
        if function.object is None:
            names = self._encode(function, number, bases)
            # Calls and symbolic sizes belong to one program.
            calls = self.encoder.calls and self.encoder.calls[-1][0] == number
            if function.printed and not calls and current_env() is None:
                self._keep(function, starts, bases, names)
        else:
            self._relocate(function.object, bases)
        count = len(self.code) - bases["instructions"]
        self.functions.append(
            self.strings.add(function.name),
            bases["instructions"],
            count,
            function.line,
            buffers[0] if buffers else 0,
            len(buffers),
            scalars[0] if scalars else 0,
            len(scalars),
        )

    def _relocate(self, encoded: ObjectFile, bases: Bases) -> None:
        """Append the records of a function that was encoded before."""
        numbers = {old: self.maps.immediates.add(key) for key, old in encoded.immediates}
        records = encoded.relocated(bases, numbers)
        for section, names in encoded.names.items():
            records[section]["name"] = [self.strings.add(name) for name in names]
        self.symbols.tile_count += len(records["tiles"])
        for section, collected in self.collected.items():
            collected.extend(records[section].tobytes())

    def _keep(
        self,
        function: p.AsmFunction,
        starts: dict[str, int],
        bases: Bases,
        names: dict[str, tuple[str, ...]],
    ) -> None:
        """Keep the function's records for other programs, if it is self-contained."""
        parts = {
            name: bytes(records.data[starts[name] * _SIZES[name] :])
            for name, records in self.collected.items()
        }
        function.object = make_object(parts, bases, self.maps.immediates.keys, names)

    def _encode(
        self, function: p.AsmFunction, number: int, bases: Bases
    ) -> dict[str, tuple[str, ...]]:
        """Append the function's records; return the names of its tiles and labels."""
        tiles = self.symbols.declare_tiles(function)
        labels, listed = self.symbols.labels(function, bases["instructions"])
        self.encoder.start(number, tiles, labels)
        encode, encode_map = self.encoder.encode, self.maps.encode
        for item in function.items:
            if isinstance(item, p.AsmInstruction):
                encode_map(item) if item.name == "@map" else encode(item)
        self.code.append(
            OPCODES["@ret"],
            0,
            NONE,
            0,
            function.end,
            NONE,
            NONE,
            NONE,
            NONE,
            NONE,
            NONE,
            0,
            0,
            0,
            0,
            *_ZEROS,
        )
        for symbol in tiles.values():
            t = symbol.tile
            self.tiles.append(
                self.strings.add(t.name),
                number,
                SPACES[t.space],
                symbol.type.number,
                t.depth,
                t.rows,
                t.columns,
                0,
                t.offset,
                symbol.slot_bytes,
            )
        for label, position in listed:
            bounds = label.bounds or (NONE, NONE)
            self.labels.append(self.strings.add(label.name), position, *bounds)
        return {"tiles": tuple(tiles), "labels": tuple(label.name for label, _ in listed)}

    def _refuse_recursion(self) -> None:
        names = list(self.symbols.functions)
        callees: dict[int, list[int]] = {}
        for caller, callee in self.encoder.calls:
            callees.setdefault(caller, []).append(callee)
        done: set[int] = set()
        for root in range(len(names)):
            path: list[tuple[int, int]] = [(root, 0)] if root not in done else []
            while path:
                function, step = path.pop()
                following = callees.get(function, [])
                if step == len(following):
                    done.add(function)
                    continue
                path.append((function, step + 1))
                callee = following[step]
                if any(active == callee for active, _ in path):
                    line = next(f.line for f in self.symbols.code() if f.name == names[callee])
                    raise self.symbols.report.error(
                        f"function {names[callee]!r} calls itself, which is not allowed", line
                    )
                if callee not in done:
                    path.append((callee, 0))

    def _buffers(self) -> tuple[SectionWriter, SectionWriter, bytes]:
        """Return the sections of buffers and shapes, and the data of constants."""
        buffers, shapes = SectionWriter(image_layout.BUFFER), SectionWriter("q")
        data = bytearray()
        arguments = {"in": 0, "out": 0}
        parameters = (
            symbol for table in self.symbols.parameters for symbol in table.buffers.values()
        )
        for symbol in (*self.symbols.buffers.values(), *parameters):
            buffer = symbol.buffer
            offset = buffer.offset
            elements = 0 if buffer.kind == "param" else buffer.elements
            if buffer.kind == "const":
                data += bytes(-len(data) % MEMORY_ALIGNMENT)
                offset = len(data)
                data += buffer.data
            elif buffer.kind in arguments:
                offset = arguments[buffer.kind]
                arguments[buffer.kind] += 1
            buffers.append(
                self.strings.add(buffer.name),
                _BUFFER_NUMBER[buffer.kind],
                symbol.type.number,
                len(buffer.shape),
                len(shapes),
                symbol.alias,
                elements,
                elements * symbol.type.bytes,
                offset,
            )
            for extent in buffer.shape:
                shapes.append(extent)
        return buffers, shapes, bytes(data)

    def _scalars(self) -> SectionWriter:
        section = SectionWriter(image_layout.SCALAR)
        numbers = {"f64": 0, "i64": 4}
        scalars = [
            *self.symbols.scalars.items(),
            *(item for table in self.symbols.parameters for item in table.scalars.items()),
        ]
        for name, (_, dtype) in scalars:
            section.append(self.strings.add(name), numbers[dtype])
        return section


def _link(
    sections: dict[str, SectionWriter], blobs: dict[str, bytes], header: Sequence[int]
) -> LinkedImage:
    """Join header, directory and sections, each section aligned to 64 bytes."""
    start = image_layout.HEADER.size + image_layout.SECTION.size * len(image_layout.SECTIONS)
    directory, body = bytearray(), bytearray()
    relocations: list[Relocation] = []
    for name, _ in image_layout.SECTIONS:
        body += bytes(-(start + len(body)) % MEMORY_ALIGNMENT)
        at = start + len(body)
        if name in blobs:
            directory += image_layout.SECTION.pack(at, len(blobs[name]))
            body += blobs[name]
        else:
            section = sections[name]
            relocations += (r._replace(offset=at + r.offset) for r in section.relocations)
            directory += image_layout.SECTION.pack(at, len(section))
            body += section.data
    head = SectionWriter(image_layout.HEADER)
    head.append(
        int.from_bytes(image_layout.MAGIC, "little"),
        image_layout.VERSION,
        len(image_layout.SECTIONS),
        instruction_table.fingerprint(),
        start + len(body),
        *header,
    )
    return LinkedImage(bytes(head.data + directory + body), [*head.relocations, *relocations])


def read_sections(image: bytes) -> dict[str, Any]:
    """Return the records of every section as flat tuples; integers or bytes for plain sections."""
    found: dict[str, object] = {}
    for number, (name, kind) in enumerate(image_layout.SECTIONS):
        at = image_layout.HEADER.size + number * image_layout.SECTION.size
        offset, count = image_layout.SECTION.struct.unpack_from(image, at)
        if isinstance(kind, image_layout.LayoutRecord):
            found[name] = kind.unpack_all(image[offset : offset + count * kind.size])
        elif kind == "B":
            found[name] = image[offset : offset + count]
        else:
            found[name] = list(struct.unpack_from(f"<{count}{kind}", image, offset))
    return found
