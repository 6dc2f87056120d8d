"""Lowers the tensor-level ``ftm`` operations to upstream ones.

It is written from their definitions only, so that it is an independent check.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ftm_backend import mlir
from ftm_backend.dtypes import FLOATS
from ftm_backend.mlir_stubs import Attribute, Module, Operation, Type, Value
from ftm_backend.torch_mlir import philox


def to_upstream(module: Module) -> None:
    """Replace the tensor-level ``ftm`` operations in ``module``."""
    ir = mlir.ir
    found: dict[str, list[Operation]] = {name: [] for name in _REPLACE}

    def visit(op: Operation) -> object:
        if op.name in found:
            found[op.name].append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found["ftm.philox"]:
        library = ir.Module.parse(philox.TEXT)  # a variable, since it must outlive the move
        module.body.append(library.body.operations[0])
    for name, replace in _REPLACE.items():
        for op in found[name]:
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(replace(op))
            op.erase()


class _Index:
    """Builder of index arithmetic."""

    def __init__(self) -> None:
        self.type = mlir.ir.IndexType.get()

    def const(self, n: int) -> Value:
        attribute = mlir.ir.IntegerAttr.get(self.type, n)
        return mlir.ir.Operation.create(
            "arith.constant", [self.type], [], {"value": attribute}
        ).results[0]

    def op(self, name: str, a: Value, b: Value) -> Value:
        return mlir.ir.Operation.create(f"arith.{name}", [self.type], [a, b]).results[0]

    def linear(self, indices: list[Value], strides: list[int], offset: int) -> Value:
        total = self.const(offset)
        for index, stride in zip(indices, strides, strict=True):
            total = self.op("addi", total, self.op("muli", index, self.const(stride)))
        return total

    def split(self, flat: Value, shape: list[int]) -> list[Value]:
        """Return the coordinates of element ``flat`` of a row-major ``shape``."""
        coordinates = []
        for k, size in enumerate(shape):
            step = math.prod(shape[k + 1 :])
            coordinates.append(
                self.op("remui", self.op("divui", flat, self.const(step)), self.const(size))
            )
        return coordinates


def _facts(op: Operation) -> tuple[list[int], int]:
    ir = mlir.ir
    strides = [int(n) for n in ir.DenseI64ArrayAttr(op.attributes["strides"])]
    return strides, ir.IntegerAttr(op.attributes["offset"]).value


def _shape(value: Value) -> list[int]:
    return list(mlir.ir.RankedTensorType(value.type).shape)


def _extract(tensor: Value, indices: list[Value]) -> Value:
    element = mlir.ir.RankedTensorType(tensor.type).element_type
    return mlir.ir.Operation.create("tensor.extract", [element], [tensor, *indices]).results[0]


def _view(op: Operation) -> Value:
    return _strided(op, *_facts(op))


def _strided(op: Operation, strides: list[int], offset: int) -> Value:
    """Return the elements of the first operand at these strides, in the shape of the result."""
    ir, index = mlir.ir, _Index()
    base, type_ = op.operands[0], ir.RankedTensorType(op.results[0].type)
    made = ir.Operation.create("tensor.generate", [type_], [], regions=1)
    block = made.regions[0].blocks.append(*[index.type] * type_.rank)
    with ir.InsertionPoint(block):
        flat = index.linear(list(block.arguments), strides, offset)
        ir.Operation.create("tensor.yield", [], [_extract(base, index.split(flat, _shape(base)))])
    return made.results[0]


def _loop(count: int, start: Value, body: Callable[[Value, Value], Value]) -> Value:
    """Build an ``scf.for`` that carries one tensor through ``body(index, tensor)``."""
    ir, index = mlir.ir, _Index()
    bounds = [index.const(0), index.const(count), index.const(1)]
    made = ir.Operation.create("scf.for", [start.type], [*bounds, start], regions=1)
    block = made.regions[0].blocks.append(index.type, start.type)
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.yield", [], [body(*block.arguments)])
    return made.results[0]


def _insert(element: Value, tensor: Value, indices: list[Value]) -> Value:
    return mlir.ir.Operation.create(
        "tensor.insert", [tensor.type], [element, tensor, *indices]
    ).results[0]


def _update(op: Operation) -> Value:
    index = _Index()
    strides, offset = _facts(op)
    base, value = op.operands
    sizes, shape = _shape(value), _shape(base)

    def body(number: Value, carried: Value) -> Value:
        coordinates = index.split(number, sizes)
        target = index.split(index.linear(coordinates, strides, offset), shape)
        return _insert(_extract(value, coordinates), carried, target)

    return _loop(math.prod(sizes), base, body)


def _moving(op: Operation, iteration: Value) -> tuple[_Index, Value]:
    """Return the first flat element of a window in an iteration."""
    ir, index = mlir.ir, _Index()
    start, step = (ir.IntegerAttr(op.attributes[name]).value for name in ("start", "step"))
    return index, index.linear([iteration], [step], start)


def _window(op: Operation) -> Value:
    ir = mlir.ir
    base, type_ = op.operands[0], ir.RankedTensorType(op.results[0].type)
    index, first = _moving(op, op.operands[1])
    made = ir.Operation.create("tensor.generate", [type_], [], regions=1)
    block = made.regions[0].blocks.append(*[index.type] * type_.rank)
    with ir.InsertionPoint(block):
        strides = [math.prod(type_.shape[k + 1 :]) for k in range(type_.rank)]
        flat = index.op("addi", first, index.linear(list(block.arguments), strides, 0))
        ir.Operation.create("tensor.yield", [], [_extract(base, index.split(flat, _shape(base)))])
    return made.results[0]


def _place(op: Operation) -> Value:
    base, value, iteration = op.operands
    index, first = _moving(op, iteration)
    sizes, shape = _shape(value), _shape(base)

    def body(number: Value, carried: Value) -> Value:
        return _insert(
            _extract(value, index.split(number, sizes)),
            carried,
            index.split(index.op("addi", first, number), shape),
        )

    return _loop(math.prod(sizes), base, body)


def _scatter(op: Operation) -> Value:
    ir, index = mlir.ir, _Index()
    dest, indices, updates = op.operands
    rows, width = _shape(updates)
    kind = ir.StringAttr(op.attributes["reduce"]).value
    element = ir.RankedTensorType(dest.type).element_type
    is_float = str(element) in FLOATS
    names = {
        "add": ("addf", "addi"),
        "mul": ("mulf", "muli"),
        "min": ("minimumf", "minsi"),
        "max": ("maximumf", "maxsi"),
    }
    if str(element) == "i1":
        names["max"] = ("", "ori")

    def body(number: Value, carried: Value) -> Value:
        row, column = index.split(number, [rows, width])
        place = ir.Operation.create(
            "arith.index_cast", [index.type], [_extract(indices, [row])]
        ).results[0]
        new = _extract(updates, [row, column])
        if kind != "set":
            old = _extract(carried, [place, column])
            name = "arith." + names[kind][0 if is_float else 1]
            new = ir.Operation.create(name, [element], [old, new]).results[0]
        return _insert(new, carried, [place, column])

    return _loop(rows * width, dest, body)


def _scan(op: Operation) -> Value:
    """Lower a scan element by element in the accumulator type, then round."""
    ir, index = mlir.ir, _Index()
    (x,) = op.operands
    shape, kind = _shape(x), ir.StringAttr(op.attributes["kind"]).value
    element = ir.RankedTensorType(x.type).element_type
    is_float = not isinstance(element, ir.IntegerType)
    wide = ir.F64Type.get() if is_float else ir.IntegerType.get_signless(64)
    names = {
        "add": "add",
        "mul": "mul",
        "min": "minimum" if is_float else "mins",
        "max": "maximum" if is_float else "maxs",
    }

    def make(name: str, type_: Type, *operands: Value, **attributes: Attribute) -> Value:
        return ir.Operation.create(name, [type_], list(operands), attributes).results[0]

    def convert(value: Value, type_: Type, names: tuple[str, str]) -> Value:
        # There is no library function for bf16 <-> f64.
        if "bf16" in (str(value.type), str(type_)):
            value = (
                value
                if value.type == ir.F32Type.get()
                else make(f"arith.{names[0]}", ir.F32Type.get(), value)
            )
        return value if value.type == type_ else make(f"arith.{names[not is_float]}", type_, value)

    def combine(a: Value, value: Value) -> Value:
        if kind != "lse":
            return make(f"arith.{names[kind]}{'f' if is_float else 'i'}", wide, a, value)
        high, low = make("arith.maximumf", wide, a, value), make("arith.minimumf", wide, a, value)
        total = make(
            "arith.addf",
            wide,
            high,
            make("math.log1p", wide, make("math.exp", wide, make("arith.subf", wide, low, high))),
        )
        infinite = make("arith.constant", wide, value=ir.FloatAttr.get(wide, math.inf))
        same = make(
            "arith.cmpf",
            ir.IntegerType.get_signless(1),
            make("math.absf", wide, high),
            infinite,
            predicate=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1),
        )
        return make("arith.select", wide, same, high, total)

    def body(number: Value, carried: Value) -> Value:
        coordinates = index.split(number, shape)
        value = convert(
            _extract(x, coordinates), wide, ("extf", "extui" if str(element) == "i1" else "extsi")
        )
        outer, along, inner = coordinates
        before = _extract(
            carried,
            [
                outer,
                index.op("maxsi", index.op("subi", along, index.const(1)), index.const(0)),
                inner,
            ],
        )
        first = make(
            "arith.cmpi",
            ir.IntegerType.get_signless(1),
            along,
            index.const(0),
            predicate=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
        )
        return _insert(
            make("arith.select", wide, first, value, combine(before, value)), carried, coordinates
        )

    start = make(
        "tensor.splat",
        ir.RankedTensorType.get(shape, wide),
        make(
            "arith.constant",
            wide,
            value=ir.FloatAttr.get(wide, 0.0) if is_float else ir.IntegerAttr.get(wide, 0),
        ),
    )
    total = _loop(math.prod(shape), start, body)
    if element == wide:
        return total
    made = ir.Operation.create("tensor.generate", [x.type], [], regions=1)
    with ir.InsertionPoint(made.regions[0].blocks.append(*[index.type] * len(shape))):
        indices = list(made.regions[0].blocks[0].arguments)
        ir.Operation.create(
            "tensor.yield", [], [convert(_extract(total, indices), element, ("truncf", "trunci"))]
        )
    return made.results[0]


def _sort(op: Operation) -> Value:
    """Lower a sort to bubble sort: each pass compares all neighbors of a row."""
    ir, index = mlir.ir, _Index()
    (x,) = op.operands
    rows, length = _shape(x)
    element = ir.IntegerType.get_signless(64)

    def body(number: Value, carried: Value) -> Value:
        row, _, at = index.split(number, [rows, length, max(length - 1, 1)])
        following = index.op("addi", at, index.const(1))
        a, b = _extract(carried, [row, at]), _extract(carried, [row, following])
        low, high = (
            ir.Operation.create(f"arith.{name}", [element], [a, b]).results[0]
            for name in ("minsi", "maxsi")
        )
        return _insert(high, _insert(low, carried, [row, at]), [row, following])

    made = _loop(rows * length * (length - 1), x, body)
    kept = _shape(op.results[0])[1]
    if kept == length:
        return made
    cut = ir.Operation.create("tensor.generate", [op.results[0].type], [], regions=1)
    with ir.InsertionPoint(cut.regions[0].blocks.append(index.type, index.type)):
        ir.Operation.create(
            "tensor.yield", [], [_extract(made, list(cut.regions[0].blocks[0].arguments))]
        )
    return cut.results[0]


def _philox(op: Operation) -> Value:
    ir = mlir.ir
    callee = {"callee": ir.FlatSymbolRefAttr.get(philox.NAME)}
    return ir.Operation.create(
        "func.call", [ir.IntegerType.get_signless(32)], list(op.operands), callee
    ).results[0]


def _expansion(op: Operation) -> Value:
    """Return the operand that is the same tensor, computed by upstream operations."""
    _, _, expansion = op.operands
    return expansion


def _alone(op: Operation) -> Value:
    """Return the tensor of a collective of this process alone, in the shape of the result."""
    tensor, _ = op.operands
    shape = _shape(op.results[0])
    if math.prod(_shape(tensor)) != math.prod(shape):
        raise ValueError("a collective of several processes cannot be lowered for one")
    if tensor.type == op.results[0].type:
        return tensor
    return _strided(op, [math.prod(shape[k + 1 :]) for k in range(len(shape))], 0)


_REPLACE = {
    "ftm.view": _view,
    "ftm.update": _update,
    "ftm.window": _window,
    "ftm.place": _place,
    "ftm.scatter": _scatter,
    "ftm.scan": _scan,
    "ftm.sort": _sort,
    "ftm.conv_transpose": _expansion,
    "ftm.collective_start": _alone,
    "ftm.collective_wait": _alone,
    "ftm.philox": _philox,
}
