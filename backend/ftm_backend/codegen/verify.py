"""Checks modules beyond what MLIR verifies: unknown operations, and the rules of the ``ftm`` dialect.

The bindings cannot load a dialect whose operations take groups of operands of different types, so contexts let
unregistered operations through (see ``dialect.register``).  This is the verifier in its place: operand counts and
attributes come from the declarations in ``dialect.py``, the rules below say the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftm_backend import dialect
from ftm_backend.mlir import ir

__all__ = ["VerifyError", "verify"]


class VerifyError(ValueError):
    """A module breaks a rule; the message shows the operation."""


class _Broken(Exception):
    pass


def verify(module: ir.Module) -> None:
    """Runs MLIR's verifier and the rules of the ``ftm`` dialect.

    Raises:
        ir.MLIRError: from MLIR's verifier.
        VerifyError: from the rules here.
    """
    module.operation.verify()
    known: set[str] = set()
    problem: list[str] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        name = operation.name
        if name in known:
            return ir.WalkResult.ADVANCE
        try:
            shape = _SHAPES.get(name)
            if shape is None:
                if not module.context.is_registered_operation(name):
                    raise _Broken(f"unknown operation {name!r}")
                known.add(name)
                return ir.WalkResult.ADVANCE
            shape.check(operation)
            rule = _RULES.get(name)
            if rule is not None:
                rule(operation.opview)
        except _Broken as broken:
            problem.append(f"{broken}\n{operation.location}\nin: {_shown(operation)}")
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if problem:
        raise VerifyError(problem[0])


def _shown(operation: ir.Operation) -> str:
    text = str(operation)
    return text if len(text) < 800 else text[:800] + " ..."


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise _Broken(message)


# --- what the declarations say --------------------------------------------------------------------------


class _Shape:
    """How many operands, results and regions an operation has, and which attributes it needs."""

    def __init__(self, operation: type) -> None:
        from ftm_backend.mlir import ext

        kinds = {kind: [f for f in operation._fields if isinstance(f, kind)]
                 for kind in (ext.OperandDef, ext.ResultDef, ext.AttributeDef, ext.RegionDef)}
        groups = kinds[ext.OperandDef]
        self.fixed = sum(field.variadicity == ext.Variadicity.single for field in groups)
        self.groups = len(groups)
        results = kinds[ext.ResultDef]
        self.results = None if any(f.variadicity != ext.Variadicity.single for f in results) else len(results)
        self.regions = len(kinds[ext.RegionDef])
        self.attributes = [field.name for field in kinds[ext.AttributeDef]]

    def check(self, operation: ir.Operation) -> None:
        count = len(operation.operands)
        if self.fixed == self.groups:
            _require(count == self.fixed, f"{operation.name} takes {self.fixed} operands, not {count}")
        elif self.groups > 1:
            name = "operandSegmentSizes"
            sizes = operation.attributes[name] if name in operation.attributes else ()
            _require(len(sizes) == self.groups and sum(sizes) == count,
                     f"the {name} of {operation.name} must be {self.groups} numbers that add up to {count}")
        if self.results is not None:
            _require(len(operation.results) == self.results, f"{operation.name} has {self.results} results")
        _require(len(operation.regions) == self.regions, f"{operation.name} has {self.regions} regions")
        for name in self.attributes:
            _require(name in operation.attributes, f"{operation.name} needs the attribute {name!r}")


_SHAPES = {operation.OPERATION_NAME: _Shape(operation) for operation in dialect.FTM.operations}


# --- rules of the tensor level --------------------------------------------------------------------------


def _elements(kind: Any) -> int:
    total = 1
    for extent in kind.shape:
        total *= extent
    return total


def _reaches(base: Any, extents: Any, offset: int, strides: Any) -> None:
    """An affine access with these extents must stay within ``base``."""
    _require(len(extents) == len(strides), f"{len(extents)} dimensions, but {len(strides)} strides")
    if any(extent == 0 for extent in extents):
        return
    ends = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
    low, high = offset + sum(min(end, 0) for end in ends), offset + sum(max(end, 0) for end in ends)
    size = _elements(base)
    _require(low >= 0 and high < size, f"reaches elements {low} to {high} of a base that has {size}")


def _view(op: Any) -> None:
    _reaches(op.operands[0].type, op.results[0].type.shape, op.offset.value, list(op.strides))


def _update(op: Any) -> None:
    base, value = (operand.type for operand in op.operands)
    _require(op.results[0].type == base, "the result must have the type of the base")
    _reaches(base, value.shape, op.offset.value, list(op.strides))


def _scatter(op: Any) -> None:
    dest, indices, updates = (operand.type for operand in op.operands)
    _require(op.results[0].type == dest, "the result must have the type of dest")
    _require(len(dest.shape) == len(updates.shape) == 2 and dest.shape[1] == updates.shape[1]
             and list(indices.shape) == [updates.shape[0]],
             "the shapes must be dest NxD, indices M, updates MxD")
    _require(op.reduce.value in ("set", "add", "mul", "min", "max"), f"unknown reduction {op.reduce.value!r}")


_SCANS = ("add", "mul", "min", "max", "lse")


def _scan(op: Any) -> None:
    x = op.operands[0].type
    _require(op.results[0].type == x and len(x.shape) == 3, "x and the result are one OxNxI type")
    _scan_kind(op, x.element_type)


def _scan_kind(op: Any, element: Any) -> None:
    _require(op.kind.value in _SCANS, f"unknown scan {op.kind.value!r}")
    _require(op.kind.value != "lse" or not isinstance(element, ir.IntegerType), "a scan by lse takes floats")


def _sort(op: Any) -> None:
    x = op.operands[0].type
    made = op.results[0].type
    _require(len(x.shape) == len(made.shape) == 2 and str(x.element_type) == str(made.element_type) == "i64"
             and made.shape[0] == x.shape[0] and made.shape[1] <= x.shape[1], "x is RxN, the result RxK of i64, K not above N")


def _kernel(op: Any) -> None:
    arguments = [argument.type for argument in op.regions[0].blocks[0].arguments]
    _require(arguments == [value.type for value in op.operands], "the region's arguments must have the types of `ins`")
    yielded = [value.type for value in op.regions[0].blocks[0].operations[-1].operands]
    _require(yielded == [result.type for result in op.results], "the region must yield values of the types of `outs`")


# --- rules of the tile level ----------------------------------------------------------------------------


def _tile_type(kind: Any) -> Any:
    _require(isinstance(kind, ir.MemRefType) and kind.memory_space is not None and len(kind.shape) == 2,
             f"{kind} is no tile: a tile is a memref of two extents in space 1, 2 or 3")
    return kind


def _tile(op: Any) -> None:
    kind = _tile_type(op.results[0].type)
    _require(all(extent > 0 for extent in kind.shape), "the extents of a tile are positive")
    _require(kind.memory_space.value in (1, 2, 3), "a tile lies in space 1 (AM), 2 (SM) or 3 (GSM)")
    _require(op.depth.value > 0, "a ring has at least one slot")


def _transfer(buffer: Any, tile: Any, op: Any) -> None:
    _require(_tile_type(tile).element_type == buffer.element_type, f"moves {buffer} to or from {tile}")
    extents, strides, row_dims = list(op.extents), list(op.strides), op.row_dims.value
    _require(len(extents) == len(strides), f"{len(extents)} extents, but {len(strides)} strides")
    _require(0 < row_dims < len(extents), "at least one dimension makes the rows and one the columns")
    dynamic = list(op.attributes["operandSegmentSizes"])[-1]
    _require(sum(extent < 0 for extent in extents) == dynamic,
             f"{dynamic} dynamic extents for {sum(extent < 0 for extent in extents)} places")
    sides = (("rows", extents[:row_dims], tile.shape[0]), ("columns", extents[row_dims:], tile.shape[1]))
    for name, dims, limit in sides:
        total = 1
        for extent in dims:
            total *= max(extent, 1)
        _require(total <= limit, f"{total} {name} do not fit into a tile of {limit}")


def _load(op: Any) -> None:
    _transfer(op.operands[0].type, op.operands[2].type, op)


def _store(op: Any) -> None:
    _transfer(op.operands[2].type, op.operands[0].type, op)


def _store_rows(op: Any) -> None:
    _tile_type(op.operands[0].type)
    _require(op.reduce.value in ("set", "add", "mul", "min", "max"), f"unknown reduction {op.reduce.value!r}")


_PRODUCTS = {"f32": "f32", "f64": "f64", "bf16": "f32", "f16": "f32", "i8": "i32", "i32": "i32", "i64": "i64"}


def _mm(op: Any) -> None:
    a, b, c = (_tile_type(op.operands[at].type) for at in (0, 2, 4))
    _require(a.element_type == b.element_type and _PRODUCTS.get(str(a.element_type)) == str(c.element_type),
             f"no matrix product takes {a.element_type} and {b.element_type} to {c.element_type}")


def _same_element(op: Any) -> None:
    x, y = (_tile_type(op.operands[at].type).element_type for at in (0, 2))
    _require(x == y, f"{op.name} does not take a tile of {x} to one of {y}")


def _scan_tile(op: Any) -> None:
    x, carry, y = (_tile_type(op.operands[at].type).element_type for at in (0, 2, 4))
    wanted = "i64" if isinstance(x, ir.IntegerType) else "f64"
    _require(x == y and str(carry) == wanted, f"no scan takes {x} to {y} with a carry of {carry}")
    _scan_kind(op, x)


def _ordered_tiles(op: Any) -> None:
    kinds = [str(_tile_type(value.type).element_type) for value in list(op.operands)[::2]]
    _require(set(kinds) == {"i64"}, f"{op.name} takes tiles of i64, not {kinds}")


def _map(op: Any) -> None:
    sizes = list(op.attributes["operandSegmentSizes"])
    access, results = ([word.value for word in op.attributes[key]] for key in ("access", "results_"))
    _require(sizes[2] == sizes[3] == len(access), "`ins`, `in_slots` and `access` must be equally many")
    _require(sizes[4] == sizes[5] == len(results), "`outs`, `out_slots` and `results_` must be equally many")
    _require(all(word in ("full", "row", "col", "one") for word in access), f"unknown access in {access}")
    for word in results:
        reduction, _, suffix = word.partition(".")
        _require(word == "full" or (reduction[:1] in "rca" and reduction[1:] in _REDUCTIONS and suffix in ("", "acc")),
                 f"unknown result {word!r}")
    operands = list(op.operands)
    block = op.regions[0].blocks[0]
    ins = [_tile_type(value.type).element_type for value in operands[2 : 2 + sizes[2]]]
    _require([argument.type for argument in block.arguments] == ins, "the body's arguments must be elements of `ins`")
    first = 2 + sizes[2] + sizes[3]
    outs = [_tile_type(value.type).element_type for value in operands[first : first + sizes[4]]]
    _require([value.type for value in block.operations[-1].operands] == outs, "the body must yield elements of `outs`")


_REDUCTIONS = ("sum", "prod", "min", "max", "and", "or")
_RULES: dict[str, Callable[[Any], None]] = {
    "ftm.view": _view, "ftm.update": _update, "ftm.scatter": _scatter, "ftm.scan": _scan, "ftm.sort": _sort,
    "ftm.kernel": _kernel, "ftm.tile": _tile,
    "ftm.load": _load, "ftm.store": _store, "ftm.store_rows": _store_rows, "ftm.mm": _mm,
    "ftm.transpose_tile": _same_element, "ftm.copy_tile": _same_element,
    "ftm.scan_tile": _scan_tile, "ftm.sort_tile": _ordered_tiles, "ftm.merge_tile": _ordered_tiles, "ftm.map": _map,
}
