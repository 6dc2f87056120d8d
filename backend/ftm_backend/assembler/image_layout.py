"""Binary layout of an image: fixed-size little-endian records, defined once for Python and C++.

An image is a header, a directory of sections, and the sections: arrays of the records below, each
aligned to 64 bytes. Loading needs no parsing: names are resolved to indices, labels to instruction
numbers, map operands to the operations that define them, and immediates to bits of their operand's
type.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MAGIC = b"FTMIMAGE"
VERSION = 5
NONE = -1
"""An absent index or register."""
MOST_DIMS = 16
"""Greatest number of dimensions of a transfer, rows and columns together."""
MOST_SIDES = 4
"""Greatest number of padded dimensions of a transfer."""
MOST_BYTES = 1 << 46
"""Buffers and the arena are smaller than this."""

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
class LayoutField:
    """One field.

    Attributes:
        name: Its name.
        code: A code of ``struct``, or the name of another record.
        doc: A comment.
        count: Length of the array, if more than 1.
    """

    name: str
    code: str
    doc: str = ""
    count: int = 1


class LayoutRecord:
    """A fixed-size record. ``pack`` takes the field values in order, nested records flattened."""

    def __init__(self, name: str, doc: str, fields: list[LayoutField]) -> None:
        self.name, self.doc, self.fields = name, doc, fields
        self.format = "".join(_flat(f) for f in fields)
        self.struct = struct.Struct("<" + self.format)
        self.size = self.struct.size
        self.pack = self.struct.pack
        RECORDS[name] = self

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The record as a numpy type."""
        return np.dtype(
            [
                (
                    f.name,
                    "<" + f.code if f.code in C_TYPES else RECORDS[f.code].dtype,
                    *([(f.count,)] if f.count > 1 else []),
                )
                for f in self.fields
            ]
        )

    def unpack_all(self, data: bytes) -> list[tuple[int, ...]]:
        """Return every record of a section as a flat tuple."""
        return list(self.struct.iter_unpack(data))


RECORDS: dict[str, LayoutRecord] = {}


def _flat(field: LayoutField) -> str:
    code = field.code if field.code in C_TYPES else RECORDS[field.code].format
    return code * field.count


VALUE = LayoutRecord(
    "Value",
    "A scalar operand: immediate + R[reg], or only the immediate if reg is -1; if scalar is "
    "not -1, + the program's i64 scalar of that number.",
    [LayoutField("immediate", "q"), LayoutField("reg", "i"), LayoutField("scalar", "i")],
)
OPERAND = LayoutRecord(
    "Operand",
    "A source of a map operation or output.",
    [
        LayoutField("kind", "B", "FTM_OPERAND_*"),
        LayoutField(
            "type",
            "B",
            "type that the operation reads or writes; SCALAR and REGISTER convert to it",
        ),
        LayoutField(
            "index",
            "H",
            "by kind: operation of the map before this one, input of the map, immediate, scalar, "
            "register",
        ),
    ],
)
BUFFER = LayoutRecord(
    "Buffer",
    "A buffer: an input, output, constant or arena region in DDR, a region of GSM, or a parameter "
    "of a function.",
    [
        LayoutField("name", "I", "string"),
        LayoutField("kind", "B", "FTM_BUFFER_*"),
        LayoutField("type", "B"),
        LayoutField("ndim", "H"),
        LayoutField("first_dim", "I", "into shapes"),
        LayoutField(
            "alias", "i", "outputs: buffer index of the input whose storage may be passed, or -1"
        ),
        LayoutField("elements", "Q"),
        LayoutField("bytes", "Q"),
        LayoutField(
            "offset",
            "Q",
            "arena, gsm: byte offset; const: byte offset in const_data; input, output: argument "
            "position; parameter: whether its function writes it",
        ),
    ],
)
SCALAR = LayoutRecord(
    "Scalar",
    "A runtime scalar argument of the program, 8 bytes each, or a scalar parameter of a function.",
    [LayoutField("name", "I", "string"), LayoutField("type", "I", "Type F64 or I64")],
)
TILE = LayoutRecord(
    "Tile",
    "A ring of tiles in scratchpad.",
    [
        LayoutField("name", "I", "string"),
        LayoutField("function", "I"),
        LayoutField("space", "B"),
        LayoutField("type", "B"),
        LayoutField("depth", "H"),
        LayoutField("rows", "I", "maximal"),
        LayoutField("columns", "I", "maximal, and the leading dimension"),
        LayoutField("reserved", "I"),
        LayoutField("offset", "Q", "bytes, in the space"),
        LayoutField("slot_bytes", "Q", "distance of slots"),
    ],
)
FUNCTION = LayoutRecord(
    "Function",
    "Instructions first .. first + count - 1; the last one is @ret.",
    [
        LayoutField("name", "I", "string"),
        LayoutField("first", "I"),
        LayoutField("count", "I"),
        LayoutField("line", "I"),
        LayoutField("first_buffer", "I", "its buffer parameters, into buffers"),
        LayoutField("buffers", "I"),
        LayoutField("first_scalar", "I", "its scalar parameters, into scalars"),
        LayoutField("scalars", "I"),
    ],
)
ARGUMENT = LayoutRecord(
    "Argument",
    "What a call binds to a parameter, or the second address of an instruction: an address in a "
    "buffer, or, if buffer is -1, a value.",
    [
        LayoutField("buffer", "i"),
        LayoutField("reserved", "I"),
        LayoutField(
            "value",
            "Value",
            "element offset in the buffer, or the value; an f64 is the scalar of that number",
        ),
    ],
)
DIM = LayoutRecord(
    "Dim",
    "One dimension of a transfer.",
    [LayoutField("extent", "Value"), LayoutField("stride", "Value")],
)
INSTRUCTION = LayoutRecord(
    "Instruction",
    "One instruction outside maps; fields that it does not use are 0 or -1.",
    [
        LayoutField("opcode", "H", "FTM_OP_*"),
        LayoutField("flags", "H", "FTM_FLAG_*"),
        LayoutField("predicate", "h", "register, or -1"),
        LayoutField("negated", "H", "run if the register is zero"),
        LayoutField("line", "I", "line of the text"),
        LayoutField("target", "i", "SBR: instruction; @call: function; @map: map; else -1"),
        LayoutField("dst", "i", "destination register"),
        LayoutField("buffer", "i"),
        LayoutField(
            "tile",
            "i",
            "in operand order, data before indices: DGA and DSC: X, I; MM and MERGE: A, B, C",
            3,
        ),
        LayoutField(
            "first_dim",
            "I",
            "into dims; @call: into arguments; CSTART: the argument that is its source",
        ),
        LayoutField("row_dims", "H"),
        LayoutField("column_dims", "H"),
        LayoutField(
            "sides",
            "I",
            "DLB: number of padded dimensions; their records follow the transfer's dims, first "
            "those left of the bar, then those right of it",
        ),
        LayoutField(
            "v",
            "Value",
            "v[k]: slot of tile[k], or the scalar sources, or rows and columns of a map; "
            "v[2]: row stride of DGA and DSC; v[3]: element offset in buffer",
            4,
        ),
    ],
)
MAP = LayoutRecord(
    "Map",
    "The body of a @map.",
    [
        LayoutField("first_input", "I"),
        LayoutField("inputs", "I"),
        LayoutField("first_output", "I"),
        LayoutField("outputs", "I"),
        LayoutField("first_op", "I"),
        LayoutField("ops", "I"),
        LayoutField("line", "I"),
    ],
)
MAP_INPUT = LayoutRecord(
    "MapInput",
    "A tile read by a map.",
    [
        LayoutField("tile", "i"),
        LayoutField("access", "B", "FTM_ACCESS_*"),
        LayoutField("type", "B"),
        LayoutField("reserved", "H"),
        LayoutField("slot", "Value"),
    ],
)
MAP_OUTPUT = LayoutRecord(
    "MapOutput",
    "A tile written by a map; written after all operations of the body and all reads.",
    [
        LayoutField("tile", "i"),
        LayoutField("scope", "B", "FTM_SCOPE_*"),
        LayoutField("reduction", "B", "FTM_REDUCE_*, 0 for full"),
        LayoutField("accumulate", "B"),
        LayoutField("type", "B"),
        LayoutField("source", "Operand"),
        LayoutField("reserved", "I"),
        LayoutField("slot", "Value"),
    ],
)
MAP_OP = LayoutRecord(
    "MapOp",
    "One operation of a map body.",
    [
        LayoutField("opcode", "H", "FTM_OP_V*"),
        LayoutField("type", "B", "Type of the suffix"),
        LayoutField("from", "B", "VCVT, VBITC: type of the source"),
        LayoutField("line", "I"),
        LayoutField("result", "I", "its Type"),
        LayoutField("src", "Operand", "", 3),
        LayoutField("buffer", "i", "VGA: buffer, else -1"),
        LayoutField("reserved", "I"),
        LayoutField("address", "Value", "VGA: element offset in the buffer"),
    ],
)
LABEL = LayoutRecord(
    "Label",
    "A label, for listings and the cycle model.",
    [
        LayoutField("name", "I", "string"),
        LayoutField("instruction", "I"),
        LayoutField("minimum", "q", "trip count bounds, or -1"),
        LayoutField("maximum", "q"),
    ],
)
SECTION = LayoutRecord(
    "Section",
    "Where a section lies.",
    [
        LayoutField("offset", "Q", "bytes from the start of the image"),
        LayoutField("count", "Q", "records (bytes for blobs)"),
    ],
)
HEADER = LayoutRecord(
    "Header",
    "The start of an image; FTM_SECTIONS Section records follow it.",
    [
        LayoutField("magic", "Q"),
        LayoutField("version", "I"),
        LayoutField("sections", "I"),
        LayoutField("fingerprint", "Q", "of the table"),
        LayoutField("bytes", "Q", "of the whole image"),
        LayoutField("name", "I", "string"),
        LayoutField("machine", "I", "string"),
        LayoutField("main", "I", "function index"),
        LayoutField("inputs", "I", "count"),
        LayoutField("outputs", "I", "count"),
        LayoutField("scalars", "I", "count"),
        LayoutField("arena_bytes", "Q"),
    ],
)

SECTIONS: tuple[tuple[str, LayoutRecord | str], ...] = (
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
    ("call_ops", "q"),
)
"""Sections in the order of the directory.

A string is an offset into ``strings``, where each string ends with 0. Buffers are in the order
inputs, outputs, constants, arena regions, GSM regions, parameters; scalars in the order arguments,
parameters. ``text`` is the assembly text, or empty. ``call_ops`` has, for each call of main in the
order of the text, how many operations of the trace it computes and their numbers; it is empty for a
program without a trace. It only serves names in profiles and messages.
"""

_SECTION_ALIGNMENT = 64


def with_call_ops(image: bytes, ops: Sequence[Sequence[int]]) -> bytes:
    """Return an image with its last section, ``call_ops``.

    Args:
        image: An image in which that section is empty.
        ops: For each call of main the numbers of the operations that it computes.
    """
    entry = HEADER.size + SECTION.size * (len(SECTIONS) - 1)
    header = list(HEADER.struct.unpack_from(image))
    words = [word for numbers in ops for word in (len(numbers), *numbers)]
    body = bytearray(image)
    body += bytes(-len(body) % _SECTION_ALIGNMENT)
    SECTION.struct.pack_into(body, entry, len(body), len(words))
    body += struct.pack(f"<{len(words)}q", *words)
    header[[field.name for field in HEADER.fields].index("bytes")] = len(body)
    HEADER.struct.pack_into(body, 0, *header)
    return bytes(body)


def call_ops(image: bytes) -> list[tuple[int, ...]]:
    """Return what `with_call_ops` has written."""
    entry = HEADER.size + SECTION.size * (len(SECTIONS) - 1)
    start, count = SECTION.struct.unpack_from(image, entry)
    words = struct.unpack_from(f"<{count}q", image, start)
    found, at = [], 0
    while at < count:
        found.append(words[at + 1 : at + 1 + words[at]])
        at += 1 + words[at]
    return found


OPERAND_KINDS = ("NONE", "RESULT", "INPUT", "IMMEDIATE", "SCALAR", "REGISTER")
BUFFER_KINDS = ("INPUT", "OUTPUT", "CONST", "ARENA", "GSM", "PARAMETER")
FLAGS = ("TA", "TB", "ACC", "ADD", "MUL", "MIN", "MAX", "LSE", "DOWN", "AVG")
"""Instruction flags, from bit 0 on; ``ADD`` to ``MAX`` are suffixes of DSC, SCAN and CSTART."""
COLLECTIVE_BIT = len(FLAGS)
"""First bit of the number of a collective's kind (`COLLECTIVE_KINDS`) in the flags of CSTART."""
