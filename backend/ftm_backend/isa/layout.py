"""The binary layout of an image: fixed-size little-endian records, described once for Python and for C++.

An image is a header, a directory of sections, and the sections: arrays of the records below, each at a
multiple of 64 bytes.  Nothing in it needs parsing: names are resolved to indices, labels to instruction
numbers, map operands to the operations that they come from, immediates to the bits of their operand's type.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

MAGIC = b"FTMIMAGE"
VERSION = 4
NONE = -1
"""An absent index or register."""
MOST_DIMS = 16
MOST_SIDES = 4
"""Of one transfer, both sides together."""
MOST_BYTES = 1 << 46
"""Buffers and the arena are smaller."""

C_TYPES = {
    "B": ("uint8_t", 1),
    "H": ("uint16_t", 2),
    "h": ("int16_t", 2),
    "I": ("uint32_t", 4),
    "i": ("int32_t", 4),
    "Q": ("uint64_t", 8),
    "q": ("int64_t", 8),
}


@dataclass(frozen=True)
class Field:
    """One field: ``code`` is a struct code or the name of another record; ``count`` > 1 makes an array."""

    name: str
    code: str
    doc: str = ""
    count: int = 1


class Record:
    """A fixed-size record.  ``pack`` takes the flat field values in order, nested records spread out."""

    def __init__(self, name: str, doc: str, fields: list[Field]) -> None:
        self.name, self.doc, self.fields = name, doc, fields
        self.format = "".join(_flat(f) for f in fields)
        self.struct = struct.Struct("<" + self.format)
        self.size = self.struct.size
        self.pack = self.struct.pack
        RECORDS[name] = self

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The record as numpy knows it."""
        return np.dtype(
            [
                (f.name, "<" + f.code if f.code in C_TYPES else RECORDS[f.code].dtype, *([(f.count,)] if f.count > 1 else []))
                for f in self.fields
            ]
        )

    def unpack_all(self, data: bytes) -> list[tuple[Any, ...]]:
        """Every record of a section, as flat tuples."""
        return list(self.struct.iter_unpack(data))


RECORDS: dict[str, Record] = {}


def _flat(field: Field) -> str:
    code = field.code if field.code in C_TYPES else RECORDS[field.code].format
    return code * field.count


VALUE = Record(
    "Value",
    "A scalar operand: immediate + R[reg], or only the immediate when reg is -1; when scalar "
    "is not -1, + the program's i64 scalar of that number.",
    [
        Field("immediate", "q"),
        Field("reg", "i"),
        Field("scalar", "i"),
    ],
)
OPERAND = Record(
    "Operand",
    "A source of a map operation or output.",
    [
        Field("kind", "B", "FTM_OPERAND_*"),
        Field("type", "B", "Type that the operation reads or writes; SCALAR and REGISTER convert to it"),
        Field("index", "H", "by kind: operation of the map before this one, input of the map, immediate, scalar, register"),
    ],
)
BUFFER = Record(
    "Buffer",
    "A buffer: an input, output, constant or arena region in DDR, a region of GSM, or a parameter of a function.",
    [
        Field("name", "I", "string"),
        Field("kind", "B", "FTM_BUFFER_*"),
        Field("type", "B"),
        Field("ndim", "H"),
        Field("first_dim", "I", "into shapes"),
        Field("alias", "i", "outputs: buffer index of the input whose storage may be passed, or -1"),
        Field("elements", "Q"),
        Field("bytes", "Q"),
        Field(
            "offset",
            "Q",
            "arena, gsm: byte offset; const: byte offset in const_data; input, output: argument position; "
            "parameter: whether its function writes it",
        ),
    ],
)
SCALAR = Record(
    "Scalar",
    "A runtime scalar argument of the program, 8 bytes each, or a scalar parameter of a function.",
    [
        Field("name", "I", "string"),
        Field("type", "I", "Type F64 or I64"),
    ],
)
TILE = Record(
    "Tile",
    "A ring of tiles in scratchpad.",
    [
        Field("name", "I", "string"),
        Field("function", "I"),
        Field("space", "B"),
        Field("type", "B"),
        Field("depth", "H"),
        Field("rows", "I", "maximal"),
        Field("columns", "I", "maximal, and the leading dimension"),
        Field("reserved", "I"),
        Field("offset", "Q", "bytes, in the space"),
        Field("slot_bytes", "Q", "distance of slots"),
    ],
)
FUNCTION = Record(
    "Function",
    "Instructions first .. first + count - 1; the last one is @ret.",
    [
        Field("name", "I", "string"),
        Field("first", "I"),
        Field("count", "I"),
        Field("line", "I"),
        Field("first_buffer", "I", "its buffer parameters, into buffers"),
        Field("buffers", "I"),
        Field("first_scalar", "I", "its scalar parameters, into scalars"),
        Field("scalars", "I"),
    ],
)
ARGUMENT = Record(
    "Argument",
    "What a call binds to a parameter: an address in a buffer, or, when buffer is -1, a value.",
    [
        Field("buffer", "i"),
        Field("reserved", "I"),
        Field("value", "Value", "element offset in the buffer, or the value; an f64 is the scalar of that number"),
    ],
)
DIM = Record("Dim", "One dimension of a transfer.", [Field("extent", "Value"), Field("stride", "Value")])
INSTRUCTION = Record(
    "Instruction",
    "One instruction outside maps; fields that it does not use are 0 or -1.",
    [
        Field("opcode", "H", "FTM_OP_*"),
        Field("flags", "H", "FTM_FLAG_*"),
        Field("predicate", "h", "register, or -1"),
        Field("negated", "H", "run if the register is zero"),
        Field("line", "I", "line of the text"),
        Field("target", "i", "SBR: instruction; @call: function; @map: map; else -1"),
        Field("dst", "i", "destination register"),
        Field("buffer", "i"),
        Field("tile", "i", "in operand order, but data before index: DGA and DSC: X, I; MM and MERGE: A, B, C", 3),
        Field("first_dim", "I", "into dims; @call: into arguments"),
        Field("row_dims", "H"),
        Field("column_dims", "H"),
        Field(
            "sides", "I", "DLB: dimensions with a border; behind the transfer's dims are as many left of the bar, then those right of it"
        ),
        Field(
            "v",
            "Value",
            "v[k]: slot of tile[k], or the scalar sources, or rows and columns of a map; "
            "v[2]: row stride of DGA and DSC; v[3]: element offset in buffer",
            4,
        ),
    ],
)
MAP = Record(
    "Map",
    "The body of a @map.",
    [
        Field("first_input", "I"),
        Field("inputs", "I"),
        Field("first_output", "I"),
        Field("outputs", "I"),
        Field("first_op", "I"),
        Field("ops", "I"),
        Field("line", "I"),
    ],
)
MAP_INPUT = Record(
    "MapInput",
    "A tile read by a map.",
    [
        Field("tile", "i"),
        Field("access", "B", "FTM_ACCESS_*"),
        Field("type", "B"),
        Field("reserved", "H"),
        Field("slot", "Value"),
    ],
)
MAP_OUTPUT = Record(
    "MapOutput",
    "A tile written by a map, as if after all operations of the body and all reads of its inputs.",
    [
        Field("tile", "i"),
        Field("scope", "B", "FTM_SCOPE_*"),
        Field("reduction", "B", "FTM_REDUCE_*, 0 for full"),
        Field("accumulate", "B"),
        Field("type", "B"),
        Field("source", "Operand"),
        Field("reserved", "I"),
        Field("slot", "Value"),
    ],
)
MAP_OP = Record(
    "MapOp",
    "One operation of a map body.",
    [
        Field("opcode", "H", "FTM_OP_V*"),
        Field("type", "B", "Type of the suffix"),
        Field("from", "B", "VCVT, VBITC: type of the source"),
        Field("line", "I"),
        Field("result", "I", "its Type"),
        Field("src", "Operand", "", 3),
        Field("buffer", "i", "VGA: buffer, else -1"),
        Field("reserved", "I"),
        Field("address", "Value", "VGA: element offset in the buffer"),
    ],
)
LABEL = Record(
    "Label",
    "A label, for listings and the cycle model.",
    [
        Field("name", "I", "string"),
        Field("instruction", "I"),
        Field("minimum", "q", "trip count bounds, or -1"),
        Field("maximum", "q"),
    ],
)
SECTION = Record(
    "Section",
    "Where a section lies.",
    [
        Field("offset", "Q", "bytes from the start of the image"),
        Field("count", "Q", "records (bytes for blobs)"),
    ],
)
HEADER = Record(
    "Header",
    "The start of an image; FTM_SECTIONS Section records follow it.",
    [
        Field("magic", "Q"),
        Field("version", "I"),
        Field("sections", "I"),
        Field("fingerprint", "Q", "of the table"),
        Field("bytes", "Q", "of the whole image"),
        Field("name", "I", "string"),
        Field("machine", "I", "string"),
        Field("main", "I", "function index"),
        Field("inputs", "I", "count"),
        Field("outputs", "I", "count"),
        Field("scalars", "I", "count"),
        Field("arena_bytes", "Q"),
    ],
)

SECTIONS: tuple[tuple[str, Record | str], ...] = (
    ("buffers", BUFFER),
    ("scalars", SCALAR),
    ("shapes", "q"),
    ("tiles", TILE),
    ("functions", FUNCTION),
    ("instructions", INSTRUCTION),
    ("arguments", ARGUMENT),
    ("dims", DIM),
    ("maps", MAP),
    ("map_inputs", MAP_INPUT),
    ("map_outputs", MAP_OUTPUT),
    ("map_ops", MAP_OP),
    ("immediates", "Q"),
    ("labels", LABEL),
    ("strings", "B"),
    ("const_data", "B"),
    ("text", "B"),
)
"""Sections in the order of the directory; a string is an offset into ``strings``, which ends each with 0.

Buffers come in the order inputs, outputs, constants, arena regions, GSM regions, parameters; scalars in the order arguments, parameters.
``text`` is the assembly text, or empty.
"""

OPERAND_KINDS = ("NONE", "RESULT", "INPUT", "IMMEDIATE", "SCALAR", "REGISTER")
BUFFER_KINDS = ("INPUT", "OUTPUT", "CONST", "ARENA", "GSM", "PARAMETER")
FLAGS = ("TA", "TB", "ACC", "ADD", "MUL", "MIN", "MAX", "LSE", "DOWN", "ZIP")
"""Instruction flags, bit by bit from 0; ``ADD`` to ``MAX`` are suffixes of DST, DSC and SCAN."""
