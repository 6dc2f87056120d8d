"""Reads MLIR, linalg on tensors with the ``ftm`` operations beside it, into a function.

Everything that only moves elements (slices, reshapes, transposes, broadcasts, copying generics) becomes part of the
accesses that read through it; paddings and inserted slices become updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftm_backend.linalg.affine import Affine, dot, row_major, volume
from ftm_backend.linalg.ir import (
    Border,
    Function,
    Node,
    Operand,
    Part,
    Repeat,
    Result,
    Statement,
    Tensor,
    Update,
    Value,
    Window,
    constant,
    copy_statement,
    nodes_of,
    whole_statement,
)
from ftm_backend.linalg.named import NAMED, named_statement
from ftm_backend.linalg.nodes import recognise_reduction
from ftm_backend.linalg.read_body import BodyReader, constant_node, token
from ftm_backend.linalg.strided import Strided, compose, contiguous_strides
from ftm_backend.mlir import ir

__all__ = ["FunctionReader", "read_module"]


def read_module(text: str) -> Function:
    """The function ``@main`` of a module's text, in the current MLIR context.

    Raises:
        ir.MLIRError: text that is no valid MLIR.  ValueError: an operation that the midend does not take.
    """
    return FunctionReader(ir.Module.parse(text)).function


class FunctionReader:
    """Reads the one function of a module.

    Args:
        module: holds one function with a body.
        handlers: for operations of other stages; a handler takes the reader and the operation.

    Raises:
        ValueError: an operation that the midend does not take.
    """

    def __init__(self, module: Any, handlers: Mapping[str, Handler] | None = None) -> None:
        functions = [op for op in module.body.operations if op.operation.name == "func.func" and len(op.regions[0].blocks)]
        if len(functions) != 1:
            raise ValueError(f"a program is one function with a body, found {len(functions)}")
        operation = functions[0].operation
        self.function = Function()
        self.tensors: dict[ir.Value, Tensor] = {}
        self.scalars: dict[ir.Value, Node] = {}
        self._handlers = {**_HANDLERS, **(handlers or {})}
        self._copies: dict[tuple[int, Strided], Tensor] = {}
        self._stores: list[Window] = []  # of the repeat that is being read
        block = operation.regions[0].blocks[0]
        for argument in block.arguments:
            if isinstance(argument.type, ir.RankedTensorType):
                self.function.inputs.append(self.bind(argument))
            else:
                node = Node("scalar", token(argument.type), payload=f"s{len(self.function.scalars)}")
                self.function.scalars.append(node)
                self.scalars[argument] = node
        operations = list(block.operations)
        for op in operations[:-1]:
            self.read(op)
        self.function.results = [self.tensors[o] for o in operations[-1].operands]
        self.function.input_types = _told(operation, "ftm.inputs", [v.dtype for v in self.function.inputs])
        self.function.output_types = _told(operation, "ftm.outputs", [t.value.dtype for t in self.function.results])

    def bind(self, ssa: ir.Value, value: Value | None = None) -> Value:
        """Declares ``ssa`` a dense tensor."""
        if value is None:
            dtype, shape = tensor_type(ssa.type)
            value = Value(dtype, shape)
        self.tensors[ssa] = Tensor.whole(value)
        return value

    def read(self, op: Any) -> None:
        """One operation."""
        name = op.operation.name
        handler = self._handlers.get(name)
        if handler is not None:
            handler(self, op)
        elif name in NAMED:
            self._named(op)
        elif name.startswith(("arith.", "math.")) or name == "ftm.philox":
            self.scalars[op.results[0]] = BodyReader(self.scalars, self.tensors, 0, []).operation(op)
        else:
            raise ValueError(f"{name} cannot be lowered: the midend reads linalg, tensor, arith, math and ftm operations")

    # --- values ----------------------------------------------------------------------------------------

    def _empty(self, op: Any) -> None:
        self.bind(op.results[0])

    def _constant(self, op: Any) -> None:
        result, attribute = op.results[0], op.attributes["value"]
        if not isinstance(result.type, ir.RankedTensorType):
            self.scalars[result] = constant_node(attribute, token(result.type))
            return
        dtype, shape = tensor_type(result.type)
        if attribute.is_splat and volume(shape):
            self.bind(result, Value(dtype, shape, splat=constant_node(attribute.get_splat_value(), dtype)))
            return
        numbers = [attribute[k] for k in range(len(attribute))]
        value = constant([float(n) if dtype == "bf16" else n for n in numbers], dtype)
        value.shape = shape
        self.bind(result, value)

    def _fill(self, op: Any) -> None:
        dtype, shape = tensor_type(op.results[0].type)
        self.bind(op.results[0], Value(dtype, shape, splat=self.scalars[op.operands[0]]))

    # --- views -----------------------------------------------------------------------------------------

    def _see(self, op: Any, base: Tensor, view: Strided) -> None:
        """The result is ``view`` of the elements of ``base``."""
        composed = (
            compose(view, base.view)
            if not (base.view.is_contiguous() and base.view.offset)
            else Strided(view.sizes, view.strides, view.offset + base.view.offset)
        )
        if composed is None:
            base, composed = self._copy(base), view
        self.tensors[op.results[0]] = Tensor(base.value, composed)

    def _view(self, op: Any) -> None:
        view = Strided(tensor_type(op.results[0].type)[1], tuple(op.attributes["strides"]), op.attributes["offset"].value)
        self._see(op, self.tensors[op.operands[0]], view)

    def _reshape(self, op: Any) -> None:
        base, shape = self.tensors[op.operands[0]], tensor_type(op.results[0].type)[1]
        access = base.view.reshape(shape)
        if access is None:
            base = self._copy(base)
            access = base.view.reshape(shape)
        assert access is not None, "a dense tensor takes every shape"
        self.tensors[op.results[0]] = Tensor(base.value, access)

    def _transpose(self, op: Any) -> None:
        base = self.tensors[op.operands[0]]
        self.tensors[op.results[0]] = Tensor(base.value, base.view.permute(tuple(op.attributes["permutation"])))

    def _broadcast(self, op: Any) -> None:
        base, shape = self.tensors[op.operands[0]], tensor_type(op.results[0].type)[1]
        added, strides = set(op.attributes["dimensions"]), iter(base.view.strides)
        steps = tuple(0 if k in added else next(strides) for k in range(len(shape)))
        self.tensors[op.results[0]] = Tensor(base.value, Strided(shape, steps, base.view.offset))

    def _extract_slice(self, op: Any) -> None:
        base = self.tensors[op.operands[0]]
        self.tensors[op.results[0]] = Tensor(base.value, _slice(op, base.view, tensor_type(op.results[0].type)[1]))

    def _copy(self, tensor: Tensor) -> Tensor:
        """A dense copy, one for all who need it."""
        key = id(tensor.value), tensor.view
        if key not in self._copies:
            made = copy_statement(tensor)
            self.function.body.append(made)
            self._copies[key] = Tensor.whole(made.results[0].value)
        return self._copies[key]

    def _copied(self, op: Any) -> None:
        made = copy_statement(self.tensors[op.operands[0]])
        self.function.body.append(made)
        self.bind(op.results[0], made.results[0].value)

    # --- updates ---------------------------------------------------------------------------------------

    def _place(self, op: Any, base: Tensor, part: Tensor, place: Strided) -> None:
        if not (base.view.is_dense and base.view.numel == volume(base.value.shape)):
            base = self._copy(base)
        if place.numel == 0:
            self.tensors[op.results[0]] = base
            return
        result = self.bind(op.results[0])
        result.producer = Update(result, base, [Part(part, place)])
        self.function.body.append(result.producer)

    def _update(self, op: Any) -> None:
        base, part = self.tensors[op.operands[0]], self.tensors[op.operands[1]]
        place = Strided(part.view.sizes, tuple(op.attributes["strides"]), op.attributes["offset"].value)
        before = base.value.producer
        if "joined" in op.attributes and isinstance(before, Update):
            before.parts.append(Part(part, place))
            self.function.body.remove(before)
            self.function.body.append(before)
            self.tensors[op.results[0]] = base
        else:
            self._place(op, base, part, place)

    def _insert_slice(self, op: Any) -> None:
        part, base = self.tensors[op.operands[0]], self.tensors[op.operands[1]]
        self._place(op, base, part, _slice(op, Strided.whole(base.view.sizes), part.view.sizes))

    def _border(self, op: Any) -> None:
        inside = self.tensors[op.operands[0]]
        self.bind(op.results[0]).border = Border(inside.value, inside.view.sizes, tuple(op.attributes["low"]))

    def _pad(self, op: Any) -> None:
        part, (dtype, shape) = self.tensors[op.operands[0]], tensor_type(op.results[0].type)
        fill = list(op.regions[0].blocks[0].operations)[-1]
        if fill.operation.name != "tensor.yield" or fill.operands[0] not in self.scalars:
            raise ValueError("tensor.pad with a computed padding value; only a value from outside can be lowered")
        low, high = tuple(op.attributes["static_low"]), tuple(op.attributes["static_high"])
        if min((*low, *high), default=0) < 0:
            raise ValueError("tensor.pad with dynamic or negative padding cannot be lowered: slice instead")
        strides = contiguous_strides(shape)
        base = Tensor.whole(Value(dtype, shape, splat=self.scalars[fill.operands[0]]))
        offset = sum(p * s for p, s in zip(low, strides, strict=True))
        self._place(op, base, part, Strided(part.view.sizes, strides, offset))

    # --- repeats ---------------------------------------------------------------------------------------

    def _repeat(self, op: Any) -> None:
        lower, upper, step = (self.scalars[o].payload for o in op.operands[:3])
        if (lower, step) != (0, 1) or upper < 1:
            raise ValueError(f"scf.for from {lower} to {upper} by {step} cannot be lowered: loops go from 0 to at least 1 by 1")
        outside, copies = self.function, dict(self._copies)
        bases = [self._dense(self.tensors[o]) for o in op.operands[3:]]
        block = op.regions[0].blocks[0]
        self.function = Function()
        results = [self.bind(argument) for argument in list(block.arguments)[1:]]
        repeat = Repeat(upper, self.function, [], results, bases)
        before, self._stores = self._stores, repeat.stores
        for inner in list(block.operations)[:-1]:
            self.read(inner)
        self.function, self._copies, self._stores = outside, copies, before
        for ssa, value in zip(op.results, results, strict=True):
            self.bind(ssa, value).producer = repeat
        outside.body.append(repeat)

    def _dense(self, tensor: Tensor) -> Value:
        return tensor.value if tensor.is_whole else self._copy(tensor).value

    def _window(self, op: Any) -> None:
        value = self.bind(op.results[0])
        value.window = Window(self._dense(self.tensors[op.operands[0]]), op.attributes["start"].value, op.attributes["step"].value)
        self.function.inputs.append(value)

    def _stored(self, op: Any) -> None:
        array = self.tensors[op.operands[0]]
        self.function.results.append(self.tensors[op.operands[1]])
        self._stores.append(Window(array.value, op.attributes["start"].value, op.attributes["step"].value))
        self.tensors[op.results[0]] = array

    # --- operations ------------------------------------------------------------------------------------

    def _whole(self, op: Any) -> None:
        operands = [self.tensors[o] for o in op.operands]
        attributes = {name: op.attributes[name].value for name in op.attributes}
        value = self.bind(op.results[0])
        self.function.body.append(whole_statement(op.operation.name, operands, value, attributes))

    def _named(self, op: Any) -> None:
        x, y, start = (self.tensors[o] for o in op.operands)
        attributes = {name: tuple(int(n) for n in op.attributes[name]) for name in ("strides", "dilations") if name in op.attributes}
        value = self.bind(op.results[0])
        init = start.value.splat if start.value.splat is not None else start
        self.function.body.append(named_statement(op.operation.name, (x, y), value, init, attributes))

    def _generic(self, op: Any) -> None:
        maps = [_map(a.value) for a in op.attributes["indexing_maps"]]
        reduced = tuple("reduction" in str(kind) for kind in op.attributes["iterator_types"])
        rank, count = len(reduced), len(op.results)
        tensors = [self.tensors[o] for o in op.operands]
        loops = _extents(maps, [t.view.sizes for t in tensors], rank)
        carried = any(reduced)
        operands: list[Operand] = []
        arguments: list[Node] = []
        for number, (tensor, indices) in enumerate(zip(tensors, maps, strict=True)):
            started = number - (len(tensors) - count)
            if started >= 0 and carried:
                arguments.append(Node("carry", tensor.value.dtype, payload=started))
            elif tensor.value.splat is not None:
                arguments.append(tensor.value.splat)
            else:
                operands.append(Operand(tensor.value, dot(indices, tensor.view.strides, tensor.view.offset, rank)))
                arguments.append(Node("in", tensor.value.dtype, payload=operands[-1]))
        gathers: list[Value] = []
        reader = BodyReader(self.scalars, self.tensors, rank, gathers, self._copy)
        yields = reader.block(op.regions[0].blocks[0], arguments)
        results: list[Result] = []
        for number, (ssa, node) in enumerate(zip(op.results, yields, strict=True)):
            indices, start = maps[len(maps) - count + number], tensors[len(tensors) - count + number]
            value = Value(*tensor_type(ssa.type))
            result = Result(value, dot(indices, row_major(value.shape), 0, rank), indices, node)
            if carried:
                result.init = start.value.splat or Operand(start.value, dot(indices, start.view.strides, start.view.offset, rank))
                recognise_reduction(result, number)
            results.append(result)
            self.bind(ssa, value)
        used = {id(n.payload) for n in nodes_of(results) if n.op == "in"}
        statement = Statement(
            "linalg.generic", loops, reduced, [o for o in operands if id(o) in used], results, list(dict.fromkeys(gathers))
        )
        moved = None if carried else statement.moved()
        if moved is not None:
            self.tensors[op.results[0]] = moved
            return
        for result in results:
            result.value.producer = statement
        self.function.body.append(statement)


def tensor_type(kind: ir.Type) -> tuple[str, tuple[int, ...]]:
    """Token and shape of a ranked tensor type."""
    ranked = ir.RankedTensorType(kind)
    if not ranked.has_static_shape:
        raise ValueError(f"{kind}: the midend takes static shapes only")
    return token(ranked.element_type), tuple(ranked.shape)


def _told(operation: Any, name: str, default: list[str]) -> list[str]:
    """The dtype tokens that were noted for arguments or results (they tell u8 from i8)."""
    return [a.value for a in operation.attributes[name]] if name in operation.attributes else default


def _slice(op: Any, whole: Strided, part: Sequence[int]) -> Strided:
    """The view that an extract_slice or insert_slice addresses; ``part`` may lack dimensions of size 1."""
    offsets, sizes, steps = (tuple(op.attributes[f"static_{k}"]) for k in ("offsets", "sizes", "strides"))
    if min((*offsets, *sizes), default=0) < 0:
        raise ValueError(f"{op.operation.name} with dynamic offsets or sizes cannot be lowered")
    offset = whole.offset + sum(o * s for o, s in zip(offsets, whole.strides, strict=True))
    # Extents of 1 that are dropped have no say in the address, so any match of the others is right.
    steps_flat = [a * b for a, b in zip(steps, whole.strides, strict=True)]
    strides, k = [], len(sizes) - 1
    for extent in reversed(part):
        while sizes[k] != extent:
            k -= 1
        strides.append(steps_flat[k])
        k -= 1
    return Strided(tuple(part), tuple(reversed(strides)), offset)


def _extents(maps: Sequence[Sequence[Affine]], shapes: Sequence[Sequence[int]], rank: int) -> tuple[int, ...]:
    """Loop extents, from the operands that are indexed by a bare loop."""
    loops: list[int | None] = [None] * rank
    for indices, shape in zip(maps, shapes, strict=True):
        for index, extent in zip(indices, shape, strict=True):
            if index.const == 0 and sum(map(abs, index.coeffs)) == 1 and max(index.coeffs) == 1:
                loops[index.coeffs.index(1)] = extent
    if None in loops:
        raise ValueError(f"linalg.generic: loop {loops.index(None)} has no operand that is indexed by it alone")
    return tuple(int(n) for n in loops if n is not None)


def _map(affine_map: ir.AffineMap) -> tuple[Affine, ...]:
    """The results of a map as functions of its dimensions; ValueError for floordiv, mod or a symbol."""
    return tuple(_expression(e, affine_map.n_dims) for e in affine_map.results)


def _expression(expr: ir.AffineExpr, rank: int) -> Affine:
    if isinstance(expr, ir.AffineDimExpr):
        return Affine.loop(expr.position, rank)
    if isinstance(expr, ir.AffineConstantExpr):
        return Affine.constant(expr.value, rank)
    if isinstance(expr, ir.AffineAddExpr):
        return _expression(expr.lhs, rank) + _expression(expr.rhs, rank)
    if isinstance(expr, ir.AffineMulExpr):
        left, right = _expression(expr.lhs, rank), _expression(expr.rhs, rank)
        if left.is_constant:
            return right.scaled(left.const)
        if right.is_constant:
            return left.scaled(right.const)
    raise ValueError(f"indexing map with {expr}: only sums of constant multiples of loops are allowed at this stage")


Handler = Callable[[FunctionReader, Any], None]

_HANDLERS: dict[str, Handler] = {
    "tensor.empty": FunctionReader._empty,
    "arith.constant": FunctionReader._constant,
    "linalg.fill": FunctionReader._fill,
    "linalg.copy": FunctionReader._copied,
    "ftm.view": FunctionReader._view,
    "tensor.expand_shape": FunctionReader._reshape,
    "tensor.collapse_shape": FunctionReader._reshape,
    "tensor.extract_slice": FunctionReader._extract_slice,
    "linalg.transpose": FunctionReader._transpose,
    "linalg.broadcast": FunctionReader._broadcast,
    "ftm.update": FunctionReader._update,
    "scf.for": FunctionReader._repeat,
    "ftm.window": FunctionReader._window,
    "ftm.place": FunctionReader._stored,
    "tensor.insert_slice": FunctionReader._insert_slice,
    "tensor.pad": FunctionReader._pad,
    "ftm.border": FunctionReader._border,
    "ftm.scatter": FunctionReader._whole,
    "ftm.scan": FunctionReader._whole,
    "ftm.sort": FunctionReader._whole,
    "linalg.generic": FunctionReader._generic,
}
