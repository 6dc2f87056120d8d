"""Reads a tile-level function of the ``ftm`` dialect into a ``Kernel``: the tree that codegen works on.

Index arithmetic becomes expressions; each ``ftm`` operation becomes one instruction whose text is complete
but for the registers.  What cannot be read raises ``CodegenError`` with the operation in question.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from ftm_backend.codegen.element_rules import RULES
from ftm_backend.codegen.elements import BodyWriter, ElementError, suffix
from ftm_backend.codegen.index import Expr, Indices
from ftm_backend.codegen.tree import Block, Branch, Instruction, Kernel, Loop, Parts, Slot, Tile, Transfer, Use
from ftm_backend.mlir import ir

__all__ = ["CodegenError", "read"]

ITEM_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1}
SPACES = {1: "am", 2: "sm", 3: "gsm"}
_ACCESS = {"full": "", "row": ".row", "col": ".col", "one": ".one"}
_COMPARE = {0: ("eq", False), 1: ("ne", False), 2: ("lt", False), 3: ("le", False), 4: ("lt", True), 5: ("le", True)}


class CodegenError(Exception):
    """A tile-level operation that no assembly can be written for."""


def read(function: Any) -> Kernel:
    """The tree of one ``func.func`` without arguments, in tile-level operations."""
    return _Reader(function).kernel


class _Reader:
    def __init__(self, function: Any) -> None:
        self.indices = Indices()
        attributes = function.attributes
        about = attributes["ftm.about"].value if "ftm.about" in attributes else ""
        name = attributes["sym_name"].value
        self.kernel = Kernel(name, self.indices, [], [], about)
        self.exprs: dict[ir.Value, Expr] = {}
        self.tiles: dict[ir.Value, Tile] = {}
        self.buffers: dict[ir.Value, str] = {}
        self.level = 0
        block = function.regions[0].blocks[0]
        if len(block.arguments):
            raise CodegenError(f"function @{name} has arguments; kernels name their buffers instead")
        self.kernel.body = self.block(block)

    # --- structure --------------------------------------------------------------------------------------

    def block(self, block: ir.Block) -> Block:
        statements: Block = []
        for operation in block.operations:
            name = operation.name
            try:
                if name.startswith("arith."):
                    if isinstance(operation.results[0].type, ir.IndexType) or name in _ALSO_BOOLEAN:
                        self.arithmetic(name, operation)
                elif name in _STATEMENTS:
                    statement = _STATEMENTS[name](self, operation)
                    if statement is not None:
                        statements.append(statement)
                elif name not in _SILENT and not name.startswith("math."):
                    raise CodegenError("no assembly is known for this operation at tile level")
            except (CodegenError, ElementError) as error:
                raise self.located(error, operation) from error
        return statements

    def located(self, error: Exception, operation: Any) -> CodegenError:
        message = str(error)
        if "\nin @" in message:
            return CodegenError(message)
        text = str(operation)
        return CodegenError(f"{message}\nin @{self.kernel.name}: {text if len(text) < 600 else text[:600] + ' ...'}")

    def loop(self, operation: Any) -> Loop:
        if len(operation.results):
            raise CodegenError("a loop at tile level carries no values: keep them in a tile")
        lower, upper, step = (self.expr(value) for value in list(operation.operands)[:3])
        if step.low < 1:
            raise CodegenError("the step of a loop must be a positive number")
        origin = lower
        if step.constant != 1:
            upper = _ceildiv(self.indices, operation, self.indices.sub(upper, lower), step)
            lower = self.indices.constant(0)
        self.level += 1
        counter = self.indices.variable(f"i{self.level}", self.level, lower.low, max(lower.low, upper.high - 1))
        block = operation.regions[0].blocks[0]
        value = self.indices.of(counter)
        if step.constant != 1:
            value = self.indices.add(origin, self.indices.mul(value, step))
        self.exprs[block.arguments[0]] = value
        loop = Loop(counter, lower, upper, self.block(block))
        self.level -= 1
        return loop

    def branch(self, operation: Any) -> Branch | None:
        if len(operation.results):
            raise CodegenError("an scf.if at tile level gives no values: use arith.select")
        condition = self.expr(operation.operands[0])
        self.level += 1
        blocks = [list(region.blocks) for region in operation.regions]
        body, otherwise = (self.block(b[0]) if b else [] for b in blocks)
        self.level -= 1
        return Branch(condition, body, otherwise)

    # --- index arithmetic -------------------------------------------------------------------------------

    def expr(self, value: ir.Value) -> Expr:
        found = self.exprs.get(value)
        if found is None:
            raise CodegenError(f"{value} is no index that codegen can follow")
        return found

    def arithmetic(self, name: str, operation: Any) -> None:
        rule = _ARITHMETIC.get(name)
        if name == "arith.constant":
            value = operation.attributes["value"].value
            result = self.indices.constant(abs(int(value)) if isinstance(value, bool) else int(value))
        elif rule is None:
            raise CodegenError(f"{name} on index values has no instruction")
        else:
            args = [self.exprs.get(value) for value in operation.operands]
            if any(arg is None for arg in args):
                return  # scalar arithmetic that a map body will repeat
            result = rule(self.indices, operation, *args)
        self.exprs[operation.results[0]] = result

    # --- declarations -----------------------------------------------------------------------------------

    def buffer(self, operation: Any) -> None:
        self.buffers[operation.results[0]] = operation.attributes["symbol"].value

    def tile(self, operation: Any) -> None:
        kind = operation.results[0].type
        dtype = str(kind.element_type)
        space = SPACES.get(kind.memory_space.value if kind.memory_space else 0)
        if space is None or dtype not in ITEM_BYTES:
            raise CodegenError("a tile is a memref of a machine type in space 1 (AM), 2 (SM) or 3 (GSM)")
        rows, columns = kind.shape
        tile = Tile(f"T{len(self.kernel.tiles)}", space, dtype, rows, columns, operation.attributes["depth"].value,
                    ITEM_BYTES[dtype])
        self.kernel.tiles.append(tile)
        self.tiles[operation.results[0]] = tile

    def core(self, operation: Any) -> None:
        self.exprs[operation.results[0]] = self.indices.of(self.indices.core)

    def cores(self, operation: Any) -> None:
        self.exprs[operation.results[0]] = self.indices.of(self.indices.cores)

    # --- pieces of instructions -------------------------------------------------------------------------

    def slot(self, tile: ir.Value, index: ir.Value) -> Slot:
        found = self.tiles[tile]
        expr = self.expr(index)
        return Slot(found, self.indices.constant(0) if found.depth == 1 else expr)

    def address(self, symbol: str, offset: Expr) -> Parts:
        return [f"{symbol}[", Use(offset, address=True), "]"]

    def dims(self, operation: Any, dynamic: list[Expr]) -> tuple[Parts, tuple[Expr, ...], tuple[int, ...]]:
        rest = iter(dynamic)
        strides = tuple(operation.attributes["strides"])
        extents = tuple(
            next(rest) if extent < 0 else self.indices.constant(extent) for extent in operation.attributes["extents"]
        )
        row_dims = operation.attributes["row_dims"].value
        parts: Parts = []
        for position, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
            parts += [" | " if position == row_dims else " " if position else "", Use(extent), f"@{stride}"]
        return parts, extents, strides

    # --- data movement ----------------------------------------------------------------------------------

    def load(self, operation: Any) -> Instruction:
        buffer, offset, tile, slot, *dynamic = operation.operands
        symbol, at, target = self.buffers[buffer], self.expr(offset), self.slot(tile, slot)
        dims, extents, strides = self.dims(operation, [self.expr(value) for value in dynamic])
        parts = ["DLD ", *self.address(symbol, at), ", ", *dims, ", ", target]
        return Instruction("load", parts, writes=[target], transfer=Transfer(symbol, at, extents, strides))

    def store(self, operation: Any) -> Instruction:
        tile, slot, buffer, offset, *dynamic = operation.operands
        symbol, at, source = self.buffers[buffer], self.expr(offset), self.slot(tile, slot)
        dims, extents, strides = self.dims(operation, [self.expr(value) for value in dynamic])
        name = "DST.ADD " if operation.attributes["accumulate"].value else "DST "
        parts = [name, source, ", ", *self.address(symbol, at), ", ", *dims]
        return Instruction("store", parts, reads=[source], transfer=Transfer(symbol, at, extents, strides))

    def load_rows(self, operation: Any) -> Instruction:
        buffer, offset, indices, indices_slot, tile, slot, columns = operation.operands
        symbol, at = self.buffers[buffer], self.expr(offset)
        index, target = self.slot(indices, indices_slot), self.slot(tile, slot)
        parts = ["DGA ", *self.address(symbol, at), ", ", index, ", ",
                 f"{operation.attributes['row_stride'].value} | ", Use(self.expr(columns)), "@1, ", target]
        return Instruction("gather", parts, reads=[index], writes=[target], transfer=self.anywhere(symbol))

    def store_rows(self, operation: Any) -> Instruction:
        tile, slot, indices, indices_slot, buffer, offset, columns = operation.operands
        symbol, at = self.buffers[buffer], self.expr(offset)
        index, source = self.slot(indices, indices_slot), self.slot(tile, slot)
        reduce = operation.attributes["reduce"].value
        parts = ["DSC" + ("" if reduce == "set" else f".{reduce.upper()}") + " ", source, ", ",
                 index, ", ", *self.address(symbol, at), ", ",
                 f"{operation.attributes['row_stride'].value} | ", Use(self.expr(columns)), "@1"]
        return Instruction("scatter", parts, reads=[source, index], transfer=self.anywhere(symbol))

    def anywhere(self, symbol: str) -> Transfer:
        """A transfer whose addresses depend on data."""
        unknown = self.indices.variable("anywhere", 0, 0, inf)
        return Transfer(symbol, self.indices.constant(0), (self.indices.of(unknown),), (1,))

    def load_index(self, operation: Any) -> Instruction:
        buffer, offset = operation.operands
        symbol = self.buffers[buffer]
        loaded = self.indices.variable(f"m{len(self.exprs)}", self.level, -inf, inf)
        self.exprs[operation.results[0]] = self.indices.of(loaded)
        parts = ["SLDI ", *self.address(symbol, self.expr(offset)), ", "]
        return Instruction("index", parts, result=loaded, from_memory=(symbol,))

    # --- computing --------------------------------------------------------------------------------------

    def matmul(self, operation: Any) -> Instruction:
        a, b, c = (self.slot(*operation.operands[at : at + 2]) for at in (0, 2, 4))
        flags = [(word, operation.attributes[key].value) for word, key in
                 ((".TA", "trans_a"), (".TB", "trans_b"), (".ACC", "acc"))]
        name = "MM" + "".join(word for word, on in flags if on)
        parts = [name, " ", a, ", ", b, ", ", c]
        return Instruction("compute", parts, reads=[a, b, c] if flags[2][1] else [a, b], writes=[c])

    def copy(self, operation: Any) -> Instruction:
        x, y = (self.slot(*operation.operands[at : at + 2]) for at in (0, 2))
        return Instruction("copy", ["DCP ", x, ", ", y], reads=[x], writes=[y])

    def transpose(self, operation: Any) -> Instruction:
        x, y = (self.slot(*operation.operands[at : at + 2]) for at in (0, 2))
        return Instruction("compute", ["TRANS ", x, ", ", y], reads=[x], writes=[y])

    def scan(self, operation: Any) -> Instruction:
        x, carry, y = (self.slot(*operation.operands[at : at + 2]) for at in (0, 2, 4))
        name = f"SCAN.{operation.attributes['kind'].value.upper()}" + (".DOWN" if operation.attributes["down"].value else "")
        return Instruction("compute", [name, " ", x, ", ", carry, ", ", y], reads=[x, carry], writes=[y, carry])

    def sort(self, operation: Any) -> Instruction:
        x, y = (self.slot(*operation.operands[at : at + 2]) for at in (0, 2))
        return Instruction("compute", ["SORT ", x, ", ", y], reads=[x], writes=[y])

    def merge(self, operation: Any) -> Instruction:
        a, b, y = (self.slot(*operation.operands[at : at + 2]) for at in (0, 2, 4))
        return Instruction("compute", ["MERGE ", a, ", ", b, ", ", y], reads=[a, b], writes=[y])

    def map(self, operation: Any) -> Instruction:
        rows, columns = self.expr(operation.rows), self.expr(operation.columns)
        access = [word.value for word in operation.attributes["access"]]
        results = [word.value for word in operation.attributes["results_"]]
        ins = [self.slot(*pair) for pair in zip(operation.ins, operation.in_slots, strict=True)]
        outs = [self.slot(*pair) for pair in zip(operation.outs, operation.out_slots, strict=True)]
        writer = BodyWriter(self.exprs.get, RULES)
        block = operation.regions[0].blocks[0]
        parts: Parts = ["@map ", Use(rows), " x ", Use(columns)]
        for slot, word, argument in zip(ins, access, block.arguments, strict=True):
            register = writer.register()
            writer.bind(argument, register)
            parts += [", ", slot, f":{register.text}{_ACCESS[word]}"]
        registers = writer.run(block)
        arrow = " -> "
        for slot, word, register, value in zip(outs, results, registers, block.operations[-1].operands, strict=True):
            if suffix(value.type) != suffix(ir.Type.parse(slot.tile.dtype)):
                raise CodegenError(f"a result of type {value.type} does not fit into a tile of {slot.tile.dtype}")
            parts += [arrow, slot, f":{register.text}" + ("" if word == "full" else f".{word}")]
            arrow = ", "
        parts += ["\n", *writer.parts("      "), "    @endmap"]
        combined = [slot for slot, word in zip(outs, results, strict=True) if word.endswith(".acc")]
        return Instruction("compute", parts, reads=[*ins, *combined], writes=outs, from_memory=tuple(writer.gathers))

    def barrier(self, operation: Any) -> Instruction:
        return Instruction("barrier", ["BARRIER"])

    def call(self, operation: Any) -> Instruction:
        return Instruction("call", [f"@call {operation.attributes['callee'].value}"])


def _compare(indices: Indices, operation: Any, a: Expr, b: Expr) -> Expr:
    predicate = operation.attributes["predicate"].value
    relation, swapped = _COMPARE[predicate if predicate < 6 else predicate - 4]  # indices are never negative
    return indices.compare(relation, b, a) if swapped else indices.compare(relation, a, b)


def _truncating(indices: Indices, operation: Any, a: Expr, b: Expr) -> Expr:
    if a.low < 0 or b.low < 1:
        raise CodegenError(f"{operation.name} of an index that may be negative: use floordivsi")
    return indices.div(a, b) if operation.name == "arith.divsi" else indices.rem(a, b)


def _ceildiv(indices: Indices, operation: Any, a: Expr, b: Expr) -> Expr:
    return indices.div(indices.add(a, indices.sub(b, indices.constant(1))), b)


def _xori(indices: Indices, operation: Any, a: Expr, b: Expr) -> Expr:
    if not all(0 <= e.low and e.high <= 1 for e in (a, b)):
        raise CodegenError("arith.xori has an instruction for conditions only")
    return indices.compare("ne", a, b)


def _plain(function: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda indices, operation, *args: function(indices, *args)


_ARITHMETIC: dict[str, Callable[..., Expr]] = {
    "arith.addi": _plain(Indices.add), "arith.subi": _plain(Indices.sub), "arith.muli": _plain(Indices.mul),
    "arith.floordivsi": _plain(Indices.div), "arith.divui": _plain(Indices.div), "arith.remui": _plain(Indices.rem),
    "arith.divsi": _truncating, "arith.remsi": _truncating, "arith.ceildivsi": _ceildiv, "arith.ceildivui": _ceildiv,
    "arith.minsi": _plain(Indices.min), "arith.minui": _plain(Indices.min),
    "arith.maxsi": _plain(Indices.max), "arith.maxui": _plain(Indices.max),
    "arith.cmpi": _compare, "arith.select": _plain(Indices.select), "arith.xori": _xori,
    "arith.andi": lambda indices, operation, a, b: indices.logic("and", a, b),
    "arith.ori": lambda indices, operation, a, b: indices.logic("or", a, b),
    "arith.index_cast": lambda indices, operation, a: a,
    "arith.index_castui": lambda indices, operation, a: a,
}
_ALSO_BOOLEAN = {"arith.cmpi", "arith.andi", "arith.ori", "arith.xori", "arith.index_cast", "arith.index_castui"}
_STATEMENTS: dict[str, Callable[[_Reader, Any], Any]] = {
    "scf.for": _Reader.loop, "scf.if": _Reader.branch, "ftm.buffer": _Reader.buffer, "ftm.tile": _Reader.tile,
    "ftm.core_id": _Reader.core, "ftm.num_cores": _Reader.cores, "ftm.load": _Reader.load, "ftm.store": _Reader.store,
    "ftm.load_rows": _Reader.load_rows, "ftm.store_rows": _Reader.store_rows, "ftm.load_index": _Reader.load_index,
    "ftm.mm": _Reader.matmul, "ftm.transpose_tile": _Reader.transpose, "ftm.copy_tile": _Reader.copy,
    "ftm.scan_tile": _Reader.scan,
    "ftm.sort_tile": _Reader.sort, "ftm.merge_tile": _Reader.merge, "ftm.map": _Reader.map, "ftm.barrier": _Reader.barrier, "func.call": _Reader.call,
}
_SILENT = {"scf.yield", "func.return", "ftm.scalar"}
