"""``@map`` blocks to image records: strips for values, direct reads of inputs, direct writes of outputs.

Values get strip temporaries by liveness, so that a body needs as few strips as values live at once.  A value
that goes to a full output is computed in the output tile itself where nothing can notice.
"""

from __future__ import annotations

from ftm_backend.instructions.table import ACCESSES, OPCODES, REDUCTIONS, SCOPES
from ftm_backend.isa import program as p
from ftm_backend.isa.encode import Encoder
from ftm_backend.isa.layout import INSTRUCTION, MAP, MAP_INPUT, MAP_OP, MAP_OUTPUT, NONE
from ftm_backend.isa.typing_map import KIND, Body, Immediates, Operation, Source, Typer

_TEMPORARY, _INPUT, _OUTPUT = KIND["TEMPORARY"], KIND["INPUT"], KIND["OUTPUT"]
_ABSENT = (0, 0, 0)
_ZERO = (0, NONE, NONE)
_FLOAT_REDUCTIONS = {"sum", "prod", "min", "max"}

Place = tuple[int, int]
"""Operand kind and index."""


class MapEncoder:
    """Collects the records of all maps of a program."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.error = encoder.error
        self.immediates = Immediates()
        self.typer = Typer(encoder, self.immediates)
        self.maps, self.inputs, self.outputs, self.ops = bytearray(), bytearray(), bytearray(), bytearray()

    def encode(self, item: p.Map) -> bytes:
        """Adds the records of ``item``; returns its instruction record."""
        body = self.typer.run(item)
        self._check(item)
        _detach(item, body)
        places, temporaries = _places(item, body)
        first = (len(self.inputs) // MAP_INPUT.size, len(self.outputs) // MAP_OUTPUT.size, len(self.ops) // MAP_OP.size)
        for number, entry in enumerate(item.inputs, 1):
            tile = self.encoder.tile(entry.tile, item.line, number)
            slot = self.encoder.index(entry.tile, item.line, number)
            self.inputs += MAP_INPUT.pack(tile.number, ACCESSES.index(entry.access), tile.type.number, 0, *slot)
        for number, (out, value) in enumerate(zip(item.outputs, body.outputs, strict=True), len(item.inputs) + 1):
            tile = self.encoder.tile(out.tile, item.line, number)
            slot = self.encoder.index(out.tile, item.line, number)
            kind, index = places[value]
            reduction = REDUCTIONS.index(out.reduction) + 1 if out.reduction else 0
            self.outputs += MAP_OUTPUT.pack(
                tile.number, SCOPES.index(out.scope), reduction, out.accumulate, tile.type.number,
                kind, tile.type.number, index, 0, *slot,
            )
        for operation in body.operations:
            self.ops += _pack(operation, body, places)
        number = len(self.maps) // MAP.size
        self.maps += MAP.pack(
            first[0], len(item.inputs), first[1], len(item.outputs), first[2], len(body.operations), temporaries, item.line
        )
        rows = self._extent(item.rows, item.line)
        columns = self._extent(item.columns, item.line)
        predicate, negated = item.predicate or (NONE, False)
        if predicate != NONE:
            self.encoder.register(predicate, item.line, None)
        return INSTRUCTION.pack(
            OPCODES["@map"], 0, predicate, negated, item.line, number, NONE, NONE, NONE, NONE, NONE, 0, 0, 0, 0,
            *rows, *columns, *_ZERO, *_ZERO,
        )

    def _extent(self, item: p.Scalar, line: int) -> tuple[int, int, int]:
        value = self.encoder.value(item, line, 0)
        if value[1] == NONE and value[2] == NONE and value[0] < 0:
            raise self.error(f"extent {value[0]} is negative", line, 0)
        return value

    def _check(self, item: p.Map) -> None:
        """Refuses static extents above the tiles', and tiles that are read and written in conflicting ways."""
        rows = item.rows.value if isinstance(item.rows, p.Immediate) else -1
        columns = item.columns.value if isinstance(item.columns, p.Immediate) else -1
        shapes = {"full": (rows, columns), "row": (1, columns), "col": (rows, 1), "one": (1, 1),
                  "r": (rows, 1), "c": (1, columns), "a": (1, 1)}
        read: dict[p.Reference, str] = {}
        for number, entry in enumerate(item.inputs, 1):
            self.encoder.fits(self.encoder.tile(entry.tile, item.line, number), *shapes[entry.access], item.line, number)
            if read.get(entry.tile, "full") == "full":
                read[entry.tile] = entry.access
        written: set[p.Reference] = set()
        for number, out in enumerate(item.outputs, len(item.inputs) + 1):
            tile = self.encoder.tile(out.tile, item.line, number)
            self.encoder.fits(tile, *shapes[out.scope], item.line, number)
            if out.tile in written:
                raise self.error(f"{tile.tile.name} is written by two outputs of the map", item.line, number)
            written.add(out.tile)
            if out.tile in read and (read[out.tile] != "full" or out.scope != "full"):
                raise self.error(
                    f"{tile.tile.name} is read and written with different accesses in one map: use another tile for the "
                    "result, or .acc to combine with what it holds", item.line, number,
                )
            if out.reduction:
                legal = _FLOAT_REDUCTIONS if tile.type.kind == "float" else set(REDUCTIONS)
                legal = {"and", "or"} if tile.type.kind == "bool" else legal
                if out.reduction not in legal:
                    raise self.error(f"no reduction {out.reduction!r} of {tile.type.suffix}", item.line, number)


def _detach(item: p.Map, body: Body) -> None:
    """Copies inputs that are results too and whose tile another output overwrites."""
    written = [out.tile for out in item.outputs]
    names = {tile.name for tile in written}
    for number, value in enumerate(body.outputs):
        if value >= len(item.inputs):
            continue
        tile = item.inputs[value].tile
        if tile.name not in names or (tile == written[number] and item.outputs[number].scope == "full"):
            continue
        element = body.types[value]
        body.operations.append(Operation(
            OPCODES["VMOV"], element.number, 0, item.line, len(body.types), [Source(_INPUT, element, value)]
        ))
        body.outputs[number] = len(body.types)
        body.types.append(element)


def _last_uses(body: Body) -> dict[int, int]:
    """Value -> number of the last operation that reads it; results needed at the end count as one past it."""
    last: dict[int, int] = {}
    for number, operation in enumerate(body.operations):
        for source in operation.sources:
            if source.kind in (_TEMPORARY, _INPUT):
                last[source.index] = number
    for value in body.outputs:
        last[value] = len(body.operations)
    return last


def _direct_outputs(item: p.Map, body: Body, last: dict[int, int]) -> dict[int, int]:
    """Value -> full output in whose tile it can be computed.

    Not where the tile is also an input that is read later: reads of inputs go straight to the tile.
    """
    defined = {operation.result: number for number, operation in enumerate(body.operations)}
    direct: dict[int, int] = {}
    for number, (out, value) in enumerate(zip(item.outputs, body.outputs, strict=True)):
        if out.scope != "full" or value not in defined or value in direct:
            continue
        written = defined[value]
        conflict = any(
            entry.tile.name == out.tile.name and last.get(index, -1) > written for index, entry in enumerate(item.inputs)
        )
        if not conflict:
            direct[value] = number
    return direct


def _places(item: p.Map, body: Body) -> tuple[dict[int, Place], int]:
    """Where each value lives, and how many strip temporaries that takes.

    A dying source's strip may be taken over by the result only where both have the same element size.
    """
    last = _last_uses(body)
    direct = _direct_outputs(item, body, last)
    places: dict[int, Place] = {index: (_INPUT, index) for index in range(len(item.inputs))}
    free: list[int] = []
    count = 0
    for number, operation in enumerate(body.operations):
        dying = {
            s.index for s in operation.sources
            if s.kind == _TEMPORARY and last[s.index] == number and places[s.index][0] == _TEMPORARY
        }
        result = operation.result
        size = body.types[result].bytes
        late = [v for v in dying if body.types[v].bytes != size]
        free.extend(places[v][1] for v in dying if body.types[v].bytes == size)
        if result in direct:
            places[result] = (_OUTPUT, direct[result])
        else:
            if free:
                strip = free.pop()
            else:
                strip, count = count, count + 1
            places[result] = (_TEMPORARY, strip)
            if result not in last:
                free.append(strip)
        free.extend(places[v][1] for v in late)
    return places, count


def _pack(operation: Operation, body: Body, places: dict[int, Place]) -> bytes:
    fields: list[int] = []
    for source in operation.sources:
        kind, index = places[source.index] if source.kind in (_TEMPORARY, _INPUT) else (source.kind, source.index)
        fields += (kind, source.type.number, index)
    for _ in range(3 - len(operation.sources)):
        fields += _ABSENT
    kind, index = places[operation.result]
    return MAP_OP.pack(
        operation.opcode, operation.type, operation.from_type, operation.line,
        kind, body.types[operation.result].number, index, *fields, operation.buffer, 0, *operation.address,
    )
