"""Reads linalg on tensors, and ``ftm.kernel`` regions, into the records of ``kernel.py``.

Views are followed here: an operand that is read through ``ftm.view`` becomes an access of the viewed tensor,
a value that ends in ``ftm.update`` gets a store into the updated buffer.  Splats (``linalg.fill``, splat
constants) become constants of the bodies that read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ftm_backend.midend import bodies
from ftm_backend.midend.affine import Affine, MapReader, dot, row_major, volume
from ftm_backend.midend.kernel import Node, Operand, Result, Statement, Value
from ftm_backend.midend.views import View, compose
from ftm_backend.mlir import ir

_ELEMENT_TOKENS = {
    "f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16", "i64": "i64", "i32": "i32", "i16": "i16",
    "i8": "i8", "i1": "i1", "index": "i64",
}


def token(element_type: ir.Type) -> str:
    """The dtype token of an element type; ``index`` is ``i64`` below linalg.

    Raises:
        ValueError: a type that no tile can hold.
    """
    text = str(element_type)
    if text not in _ELEMENT_TOKENS:
        raise ValueError(f"element type {text} has no tile; the midend takes {', '.join(_ELEMENT_TOKENS)}")
    return _ELEMENT_TOKENS[text]


@dataclass(eq=False, slots=True)
class Tensor:
    """What an SSA tensor stands for: a value seen through a view, and the splat it is known to hold."""

    value: Value
    view: View
    splat: Node | None = None


@dataclass(eq=False, slots=True)
class Update:
    """``ftm.update``: ``value`` written over part of ``base``."""

    base: Tensor
    value: Tensor
    view: View


def is_scalar_type(kind: ir.Type) -> bool:
    """Whether a value of this type is a scalar, as opposed to a tensor."""
    return not isinstance(kind, ir.RankedTensorType)


class Reader:
    """Reads the operations of one block in order.

    ``tensors`` and ``scalars`` say what each SSA value is; ``statements`` and ``updates`` collect what was
    read.  ``updates`` has, for the value that an ``ftm.update`` gives, what it wrote where.  The caller binds the block's arguments first (``bind_tensor``, ``bind_scalar``).
    """

    def __init__(self) -> None:
        self.tensors: dict[ir.Value, Tensor] = {}
        self.scalars: dict[ir.Value, Node] = {}
        self.statements: list[Statement] = []
        self.updates: dict[Value, Update] = {}
        self._maps = MapReader()
        self._iterators: dict[ir.Attribute, tuple[bool, ...]] = {}
        self._types: dict[ir.Type, tuple[str, tuple[int, ...]]] = {}

    # --- binding ---------------------------------------------------------------------------------------

    def tensor_type(self, kind: ir.Type) -> tuple[str, tuple[int, ...]]:
        """Token and shape of a ranked tensor type."""
        known = self._types.get(kind)
        if known is None:
            ranked = ir.RankedTensorType(kind)
            if not ranked.has_static_shape:
                raise ValueError(f"{kind}: the midend takes static shapes only")
            known = (token(ranked.element_type), tuple(ranked.shape))
            self._types[kind] = known
        return known

    def bind_tensor(self, ssa: ir.Value, symbol: str | None = None) -> Value:
        """Declares ``ssa`` a dense tensor, in DDR buffer ``symbol`` if given."""
        dtype, shape = self.tensor_type(ssa.type)
        value = Value(dtype, shape, symbol)
        self.tensors[ssa] = Tensor(value, View.dense(shape))
        return value

    def bind_scalar(self, ssa: ir.Value, symbol: str) -> Node:
        """Declares ``ssa`` the runtime scalar ``symbol``."""
        node = Node("scalar", token(ssa.type), payload=symbol)
        self.scalars[ssa] = node
        return node

    # --- reading ---------------------------------------------------------------------------------------

    def read(self, operations: Iterable[ir.Operation]) -> None:
        """Reads operations up to the terminator, which is left to the caller.

        Raises:
            ValueError: an operation that the midend does not know.
        """
        for operation in operations:
            name = operation.operation.name
            if name in ("func.return", "ftm.yield"):
                continue
            handler = _HANDLERS.get(name)
            if handler is not None:
                handler(self, operation)
            elif name.startswith(("arith.", "math.")) or name == "ftm.philox":
                self.scalars[operation.results[0]] = bodies.read_operation(operation, self.scalars, _no_index)
            else:
                raise ValueError(f"{name} cannot be lowered: the midend reads linalg, tensor.empty, arith, math and ftm")

    def _empty(self, op: ir.Operation) -> None:
        self.bind_tensor(op.results[0])

    def _constant(self, op: ir.Operation) -> None:
        result = op.results[0]
        if is_scalar_type(result.type):
            self.scalars[result] = bodies.constant(op)
            return
        value = self.bind_tensor(result)
        attribute = op.attributes["value"]
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat and volume(value.shape):
            splat = attribute.get_splat_value()
            self.tensors[result].splat = bodies.constant_node(splat, value.dtype)

    def _view(self, op: ir.Operation) -> None:
        base = self.tensors[op.operands[0]]
        dtype, shape = self.tensor_type(op.results[0].type)
        outer = View(shape, op.attributes["offset"].value, tuple(op.attributes["strides"]))
        view = compose(outer, base.view)
        if view is None:
            raise ValueError(f"view {outer} of view {base.view} is not affine; simplify should have copied the inner one")
        self.tensors[op.results[0]] = Tensor(base.value, view, base.splat)

    def _update(self, op: ir.Operation) -> None:
        base, value = self.tensors[op.operands[0]], self.tensors[op.operands[1]]
        view = View(value.view.shape, op.attributes["offset"].value, tuple(op.attributes["strides"]))
        self.updates[self.bind_tensor(op.results[0])] = Update(base, value, view)

    def _fill(self, op: ir.Operation) -> None:
        node = self.scalars[op.operands[0]]
        out = self.bind_tensor(op.results[0])
        index = Affine(0, row_major(out.shape))
        statement = Statement("linalg.fill", out.shape, (False,) * len(out.shape), [], [Result(out, index, _identity(len(out.shape)), node)], source=op)
        out.producer = statement
        self.tensors[op.results[0]].splat = node
        self.statements.append(statement)

    def _scatter(self, op: ir.Operation) -> None:
        operands = [self._whole(self.tensors[o]) for o in op.operands]
        out = self.bind_tensor(op.results[0])
        statement = Statement(
            "ftm.scatter", (), (), operands, [Result(out, Affine(0, ()), (), Node("constant", out.dtype, payload=0))],
            attributes={"reduce": op.attributes["reduce"].value}, source=op)
        out.producer = statement
        self.statements.append(statement)

    def _rows(self, op: ir.Operation) -> None:
        """``ftm.scan`` and ``ftm.sort``: one tensor in, one out, loops over the dimensions of the first."""
        operand = self._whole(self.tensors[op.operands[0]])
        loops = self.tensors[op.operands[0]].view.shape
        out = self.bind_tensor(op.results[0])
        rank = len(loops)
        result = Result(out, Affine(0, row_major(out.shape)), _identity(rank), Node("constant", out.dtype, payload=0))
        attributes = {name: op.attributes[name].value for name in op.attributes}
        statement = Statement(op.operation.name, loops, (False,) * rank, [operand], [result], attributes=attributes, source=op)
        out.producer = statement
        self.statements.append(statement)

    def _whole(self, tensor: Tensor) -> Operand:
        """The tensor read whole: an index over one loop per dimension of the tensor's own shape."""
        return Operand(tensor.value, Affine(tensor.view.offset, tensor.view.strides))

    def _structured(self, op: ir.Operation) -> None:
        name = op.operation.name
        attributes = {a: op.attributes[a] for a in op.attributes}
        operands = list(op.operands)
        count = len(op.results)
        inputs, inits = operands[:-count], operands[-count:]
        if "indexing_maps" in attributes:
            maps = [self._maps(a.value) for a in attributes["indexing_maps"]]
            reduced = self._reduced(attributes, maps)
        else:
            maps, reduced = named_maps(name, op, [self.tensor_type(o.type)[1] for o in operands])
        tensors = [self.tensors[o] for o in operands]
        loops = _extents(maps, [t.view.shape for t in tensors], len(reduced), name)
        reads: list[Operand] = []
        arguments: list[Node] = []
        for tensor, indices in zip(tensors[: len(inputs)], maps, strict=False):
            arguments.append(self._argument(tensor, indices, len(loops), reads))
        carried = any(reduced)
        for number, (init, indices) in enumerate(zip(tensors[len(inputs):], maps[len(inputs):], strict=True)):
            if carried:
                arguments.append(Node("carry", init.value.dtype, payload=number))
            else:
                arguments.append(self._argument(init, indices, len(loops), reads))
        block = op.regions[0].blocks[0]
        gathers: list[Value] = []
        body = bodies.BodyReader(self.scalars, self.tensors, len(loops), gathers)
        yields = body.read(block, arguments)
        results = []
        for number, ssa in enumerate(op.results):
            indices = maps[len(inputs) + number]
            value = self.bind_tensor(ssa)
            strides = row_major(value.shape)
            result = Result(value, dot(indices, strides, 0, len(loops)), tuple(indices), yields[number])
            if carried:
                init = tensors[len(inputs) + number]
                result.init = init.splat or Operand(
                    init.value, dot(indices, init.view.strides, init.view.offset, len(loops)))
                bodies.recognise_reduction(result, number, count)
            results.append(result)
        used = {id(n.payload) for n in bodies.nodes_of(results) if n.op == "in"}
        statement = Statement(
            name, loops, reduced, [r for r in reads if id(r) in used], results, gathers, attributes, op)
        for result in results:
            result.value.producer = statement
        self.statements.append(statement)

    def _reduced(self, attributes: dict[str, Any], maps: Sequence[Sequence[Affine]]) -> tuple[bool, ...]:
        """Which loops are reduced: as ``iterator_types`` says, else those that the last map does not use."""
        if "iterator_types" in attributes:
            known = self._iterators.get(attributes["iterator_types"])
            if known is None:
                known = tuple("reduction" in str(kind) for kind in attributes["iterator_types"])
                self._iterators[attributes["iterator_types"]] = known
            return known
        rank = max(len(index.coeffs) for indices in maps for index in indices)
        return tuple(not any(index.coeffs[k] for index in maps[-1]) for k in range(rank))

    def _argument(self, tensor: Tensor, indices: Sequence[Affine], rank: int, reads: list[Operand]) -> Node:
        if tensor.splat is not None:
            return tensor.splat
        operand = Operand(tensor.value, dot(indices, tensor.view.strides, tensor.view.offset, rank))
        reads.append(operand)
        return Node("in", tensor.value.dtype, payload=operand)


def _identity(rank: int) -> tuple[Affine, ...]:
    return tuple(Affine(0, tuple(int(k == d) for k in range(rank))) for d in range(rank))


def _no_index(_: ir.Operation) -> Node:
    raise ValueError("linalg.index outside a linalg.generic")


def _extents(
    maps: Sequence[Sequence[Affine]], shapes: Sequence[Sequence[int]], rank: int, name: str
) -> tuple[int, ...]:
    """Loop extents, from the operands that are indexed by a bare loop."""
    loops: list[int | None] = [None] * rank
    for indices, shape in zip(maps, shapes, strict=True):
        for index, extent in zip(indices, shape, strict=True):
            if index.const == 0 and sum(map(abs, index.coeffs)) == 1 and max(index.coeffs) == 1:
                loops[index.coeffs.index(1)] = extent
    if None in loops:
        raise ValueError(f"{name}: loop {loops.index(None)} has no operand that is indexed by it alone")
    return tuple(int(n) for n in loops if n is not None)


_MATMUL_MAPS = {
    # name: (loops, operand dims..., reduced loops)
    "linalg.matmul": ("mnk", ("mk", "kn", "mn"), "k"),
    "linalg.batch_matmul": ("bmnk", ("bmk", "bkn", "bmn"), "k"),
    "linalg.matvec": ("mk", ("mk", "k", "m"), "k"),
    "linalg.vecmat": ("nk", ("k", "kn", "n"), "k"),
    "linalg.dot": ("k", ("k", "k", ""), "k"),
}


def named_maps(
    name: str, op: ir.Operation, shapes: Sequence[Sequence[int]]
) -> tuple[list[tuple[Affine, ...]], tuple[bool, ...]]:
    """Indexing maps and reduced loops of a named operation that carries no ``indexing_maps``.

    Raises:
        ValueError: an operation that the contract between frontend and midend does not have.
    """
    if name in _MATMUL_MAPS:
        loops, operands, reduced = _MATMUL_MAPS[name]
        rank = len(loops)
        unit = {c: Affine(0, tuple(int(c == d) for d in loops)) for c in loops}
        return [tuple(unit[c] for c in dims) for dims in operands], tuple(c in reduced for c in loops)[:rank]
    if name in ("linalg.conv_2d_nchw_fchw", "linalg.conv_2d_ngchw_gfchw"):
        return _convolution_maps(op, grouped=name.endswith("gfchw"))
    raise ValueError(f"{name} is not among the named operations that the midend reads")


def _convolution_maps(op: ir.Operation, grouped: bool) -> tuple[list[tuple[Affine, ...]], tuple[bool, ...]]:
    loops = "ngfhwcyx" if grouped else "nfhwcyx"
    rank = len(loops)

    def unit(name: str, scale: int = 1) -> Affine:
        return Affine(0, tuple(scale * int(name == d) for d in loops))

    strides = [int(s) for s in op.attributes["strides"]] if "strides" in op.attributes else [1, 1]
    dilations = [int(s) for s in op.attributes["dilations"]] if "dilations" in op.attributes else [1, 1]
    rows = unit("h", strides[0]) + unit("y", dilations[0])
    columns = unit("w", strides[1]) + unit("x", dilations[1])
    group = (unit("g"),) if grouped else ()
    image = (unit("n"), *group, unit("c"), rows, columns)
    weight = (*group, unit("f"), unit("c"), unit("y"), unit("x"))
    result = (unit("n"), *group, unit("f"), unit("h"), unit("w"))
    return [image, weight, result], (False,) * (rank - 3) + (True,) * 3


_HANDLERS = {
    "tensor.empty": Reader._empty,
    "arith.constant": Reader._constant,
    "ftm.view": Reader._view,
    "ftm.update": Reader._update,
    "ftm.scatter": Reader._scatter,
    "ftm.scan": Reader._rows,
    "ftm.sort": Reader._rows,
    "linalg.fill": Reader._fill,
    "linalg.generic": Reader._structured,
    **{name: Reader._structured for name in _MATMUL_MAPS},
    "linalg.conv_2d_nchw_fchw": Reader._structured,
    "linalg.conv_2d_ngchw_gfchw": Reader._structured,
}
