"""Encodes ``@map`` blocks.

The result of each operation of a body is named by the operation's number. The machine chooses where
results are held, and which are computed directly in the output's tile
(``machine/src/map_allocate.cpp``).
"""

from __future__ import annotations

from ftm_backend.assembler.image_layout import MAP, MAP_INPUT, MAP_OP, MAP_OUTPUT, NONE
from ftm_backend.assembler.instruction_encoder import InstructionEncoder
from ftm_backend.assembler.map_type_checker import (
    KIND,
    ImmediateTypes,
    MapTypeChecker,
    TypedMapBody,
    TypedOperation,
)
from ftm_backend.assembler.section_writer import SectionWriter
from ftm_backend.ir.asm import program as p
from ftm_backend.target.instruction_table import ACCESSES, OPCODES, REDUCTIONS, SCOPES

_INPUT, _RESULT = KIND["INPUT"], KIND["RESULT"]
_MOST_OPERATIONS = 1 << 16
_ABSENT = (0, 0, 0)
_ZERO = (0, NONE, NONE)
_FLOAT_REDUCTIONS = {"sum", "prod", "min", "max"}


class MapEncoder:
    """Collects the records of all maps of a program."""

    def __init__(self, encoder: InstructionEncoder) -> None:
        self.encoder = encoder
        self.error = encoder.error
        self.immediates = ImmediateTypes()
        self.typer = MapTypeChecker(encoder, self.immediates)
        self.maps, self.inputs = SectionWriter(MAP), SectionWriter(MAP_INPUT)
        self.outputs, self.ops = SectionWriter(MAP_OUTPUT), SectionWriter(MAP_OP)

    def encode(self, item: p.AsmInstruction) -> None:
        """Append the records of ``item``, among them its instruction."""
        body = self.typer.run(item)
        self._check(item)
        if len(body.operations) > _MOST_OPERATIONS:
            raise self.error(
                f"a map has {len(body.operations)} operations; at most {_MOST_OPERATIONS} are "
                "possible",
                item.line,
            )
        first = len(self.inputs), len(self.outputs), len(self.ops)
        for number, entry in enumerate(item.inputs, 1):
            tile = self.encoder.tile(entry.tile, item.line, number)
            slot = self.encoder.index(entry.tile, item.line, number)
            self.inputs.append(
                tile.number, ACCESSES.index(entry.access), tile.type.number, 0, *slot
            )
        for number, (out, value) in enumerate(
            zip(item.outputs, body.outputs, strict=True), len(item.inputs) + 1
        ):
            tile = self.encoder.tile(out.tile, item.line, number)
            slot = self.encoder.index(out.tile, item.line, number)
            kind, index = _place(value, len(item.inputs))
            reduction = REDUCTIONS.index(out.reduction) + 1 if out.reduction else 0
            self.outputs.append(
                tile.number,
                SCOPES.index(out.scope),
                reduction,
                out.accumulate,
                tile.type.number,
                kind,
                tile.type.number,
                index,
                0,
                *slot,
            )
        for operation in body.operations:
            self.ops.append(*_fields(operation, body, len(item.inputs)))
        number = len(self.maps)
        self.maps.append(
            first[0],
            len(item.inputs),
            first[1],
            len(item.outputs),
            first[2],
            len(body.operations),
            item.line,
        )
        rows, columns = (self._extent(extent, item.line) for extent in item.operands[:2])
        predicate, negated = item.predicate or (NONE, False)
        if predicate != NONE:
            self.encoder.register(predicate, item.line, None)
        self.encoder.code.append(
            OPCODES["@map"],
            0,
            predicate,
            negated,
            item.line,
            number,
            NONE,
            NONE,
            NONE,
            NONE,
            NONE,
            0,
            0,
            0,
            0,
            *rows,
            *columns,
            *_ZERO,
            *_ZERO,
        )

    def _extent(self, item: p.Operand, line: int) -> tuple[int, int, int]:
        value = self.encoder.value(item, line, 0)
        if value[1] == NONE and value[2] == NONE and value[0] < 0:
            raise self.error(f"extent {value[0]} is negative", line, 0)
        return value

    def _check(self, item: p.AsmInstruction) -> None:
        """Reject static extents above a tile's, and conflicting accesses of one tile."""
        rows, columns = (o.value if isinstance(o, p.Immediate) else -1 for o in item.operands[:2])
        shapes = {
            "full": (rows, columns),
            "row": (1, columns),
            "col": (rows, 1),
            "one": (1, 1),
            "r": (rows, 1),
            "c": (1, columns),
            "a": (1, 1),
        }
        read: dict[p.SlotReference, str] = {}
        for number, entry in enumerate(item.inputs, 1):
            self.encoder.fits(
                self.encoder.tile(entry.tile, item.line, number),
                *shapes[entry.access],
                item.line,
                number,
            )
            if read.get(entry.tile, "full") == "full":
                read[entry.tile] = entry.access
        written: set[p.SlotReference] = set()
        for number, out in enumerate(item.outputs, len(item.inputs) + 1):
            tile = self.encoder.tile(out.tile, item.line, number)
            self.encoder.fits(tile, *shapes[out.scope], item.line, number)
            if out.tile in written:
                raise self.error(
                    f"{tile.tile.name} is written by two outputs of the map", item.line, number
                )
            written.add(out.tile)
            if out.tile in read and (read[out.tile] != "full" or out.scope != "full"):
                raise self.error(
                    f"{tile.tile.name} is read and written with different accesses in one map: use "
                    "another tile for the result, or .acc to combine with what it holds",
                    item.line,
                    number,
                )
            if out.reduction:
                legal = _FLOAT_REDUCTIONS if tile.type.kind == "float" else set(REDUCTIONS)
                legal = {"and", "or"} if tile.type.kind == "bool" else legal
                if out.reduction not in legal:
                    raise self.error(
                        f"no reduction {out.reduction!r} of {tile.type.suffix}", item.line, number
                    )


def _place(value: int, inputs: int) -> tuple[int, int]:
    """Return kind and index of an operand that refers to a value of the body."""
    return (_INPUT, value) if value < inputs else (_RESULT, value - inputs)


def _fields(operation: TypedOperation, body: TypedMapBody, inputs: int) -> tuple[int, ...]:
    """Return the fields of an operation's record."""
    fields: list[int] = []
    for source in operation.sources:
        kind, index = (
            _place(source.index, inputs)
            if source.kind in (_INPUT, _RESULT)
            else (source.kind, source.index)
        )
        fields += (kind, source.type.number, index)
    for _ in range(3 - len(operation.sources)):
        fields += _ABSENT
    return (
        operation.opcode,
        operation.type,
        operation.from_type,
        operation.line,
        body.types[operation.result].number,
        *fields,
        operation.buffer,
        0,
        *operation.address,
    )
