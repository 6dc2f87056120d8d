"""What lowerings build with: tensor values, and linalg operations made of scalar expressions.

A `Value` is a tensor of the program together with a strided access: views, permutations and broadcasts of a
value cost no operation until something needs them as a tensor of its own; elementwise operations and
reductions take them as indexing maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ftm_backend import mlir
from ftm_backend.frontend.dtypes import compute_dtype, info, promote_operands
from ftm_backend.frontend.elements import Elem, Emitter
from ftm_backend.frontend.strided import Strided, contiguous_strides
from ftm_backend.frontend.trace import TensorType

__all__ = ["Builder", "Input", "LoweringError", "Output", "Value"]


class LoweringError(ValueError):
    """An op whose arguments the compiler does not take; the message says which and why."""


class Value:
    """A tensor: ``access`` into the row-major buffer of the MLIR tensor ``base`` of shape ``base_shape``.

    shape, dtype: of the value itself.
    """

    __slots__ = ("access", "base", "base_shape", "dtype", "tensor_")

    def __init__(self, base: Any, base_shape: Sequence[int], dtype: str, access: Strided | None = None) -> None:
        self.base, self.base_shape, self.dtype = base, tuple(base_shape), dtype
        self.access = access if access is not None else Strided.whole(self.base_shape)
        self.tensor_ = base if access is None else None

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.access.sizes

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.access.sizes)

    @property
    def type(self) -> TensorType:
        """dtype and shape."""
        return TensorType(self.dtype, self.shape)

    def at(self, access: Strided) -> Value:
        """The same buffer under another access."""
        return Value(self.base, self.base_shape, self.dtype, access)

    def permute(self, order: Sequence[int]) -> Value:
        """Dimension k of the result is dimension ``order[k]``."""
        return self.at(self.access.permute(order))

    def transpose(self, a: int = -1, b: int = -2) -> Value:
        """Two dimensions exchanged."""
        order = list(range(self.rank))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def expand(self, sizes: Sequence[int]) -> Value:
        """Broadcast."""
        return self.at(self.access.expand(sizes))

    def slice(self, dim: int, start: int, length: int, step: int = 1) -> Value:
        """Part of one dimension."""
        return self.at(self.access.slice(dim, start, length, step))

    def unsqueeze(self, dim: int) -> Value:
        """A new dimension of extent 1 in front of ``dim``."""
        dim = dim % (self.rank + 1)
        a = self.access
        return self.at(Strided((*a.sizes[:dim], 1, *a.sizes[dim:]), (*a.strides[:dim], 0, *a.strides[dim:]), a.offset))


@dataclass(slots=True)
class Input:
    """An operand of a generic: ``index`` gives for each dimension of the value a loop number or an affine
    expression; None reads element 0 (broadcast)."""

    value: Value
    index: Sequence[Any]


@dataclass(slots=True)
class Output:
    """A result of a generic: dtype, shape, the loop of each dimension, and the value it starts from.

    init: None where every element is written once; a Python number for reductions; or a Value.
    """

    dtype: str
    shape: tuple[int, ...]
    index: Sequence[Any]
    init: Any = None


class Builder:
    """Builds the linalg of one function; ``results`` holds the result types of the op being lowered."""

    def __init__(self, anchor: Any) -> None:
        ir = mlir.ir
        self.ir = ir
        self.emitter = Emitter(anchor)
        self.results: tuple[TensorType | None, ...] = ()
        self._types: dict[Any, Any] = {}
        self._maps: dict[Any, Any] = {}
        self._empties: dict[Any, Any] = {}
        self._indices: dict[int, Any] = {}
        self._i64 = self.emitter.i64_type
        self._parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        self._reduction = ir.Attribute.parse("#linalg.iterator_type<reduction>")
        self._iterators: dict[tuple[bool, ...], Any] = {}

    @property
    def result(self) -> TensorType:
        """Type of the op's first result."""
        assert self.results[0] is not None, "the first result is an undefined tensor"
        return self.results[0]

    # --- types, constants -----------------------------------------------------------------------------

    def tensor_type(self, dtype: str, shape: Sequence[int]) -> Any:
        """``tensor<shape x dtype>``."""
        key = (info(dtype).builtin, tuple(shape))
        if key not in self._types:
            self._types[key] = self.ir.RankedTensorType.get(list(shape), self.emitter.type(dtype))
        return self._types[key]

    def dim(self, k: int) -> Any:
        """The affine expression of loop ``k``."""
        return self.ir.AffineExpr.get_dim(k)

    def constant(self, value: Any, dtype: str) -> Elem:
        """A scalar constant."""
        return self.emitter.constant(value, dtype)

    def create(self, name: str, dtype: str, shape: Sequence[int], operands: Sequence[Any],
               attributes: dict[str, Any] | None = None) -> Value:
        """An operation on tensors with one tensor result."""
        op = self.ir.Operation.create(name, [self.tensor_type(dtype, shape)], list(operands), attributes)
        return Value(op.results[0], shape, dtype)

    def empty(self, dtype: str, shape: Sequence[int]) -> Any:
        """A tensor whose elements will all be written; one for each type."""
        type_ = self.tensor_type(dtype, shape)
        if type_ not in self._empties:
            op = self.ir.Operation.create("tensor.empty", [type_], [], ip=self.emitter.hoist_point)
            self._empties[type_] = op.results[0]
        return self._empties[type_]

    def full(self, fill: Any, dtype: str, shape: Sequence[int]) -> Value:
        """A tensor of one number; ``fill`` is an Elem or a Python number."""
        elem = fill.to(dtype) if isinstance(fill, Elem) else self.constant(fill, dtype)
        return Value(self._filled(elem, dtype, shape), shape, dtype)

    def _filled(self, elem: Elem, dtype: str, shape: Sequence[int]) -> Any:
        ir = self.ir
        op = ir.Operation.create(
            "linalg.fill",
            [self.tensor_type(dtype, shape)],
            [elem.value, self.empty(dtype, shape)],
            {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])},
            regions=1,
        )
        mlir.linalg.fill_builtin_region(op)
        return op.results[0]

    def numbers(self, values: Sequence[Any], dtype: str) -> Value:
        """A one-dimensional constant tensor."""
        ir, type_ = self.ir, self.tensor_type(dtype, (len(values),))
        element = self.emitter.type(dtype)
        if info(dtype).kind == "float":
            attributes = [ir.FloatAttr.get(element, float(v)) for v in values]
        else:
            attributes = [ir.IntegerAttr.get(element, int(v)) for v in values]
        dense = ir.DenseElementsAttr.get(attributes, type_)
        return self.create("arith.constant", dtype, (len(values),), [], {"value": dense})

    # --- views ----------------------------------------------------------------------------------------

    def tensor(self, x: Value) -> Any:
        """``x`` as an MLIR tensor of its own shape; an ``ftm.view`` if it is not a whole tensor already."""
        if x.tensor_ is None:
            if x.shape == x.base_shape and x.access.is_contiguous() and x.access.offset == 0:
                x.tensor_ = x.base
            else:
                x.tensor_ = self._view(x.base, x.access, x.dtype)
        return x.tensor_

    def _view(self, base: Any, access: Strided, dtype: str) -> Any:
        ir = self.ir
        op = ir.Operation.create("ftm.view", [self.tensor_type(dtype, access.sizes)], [base], {
            "offset": ir.IntegerAttr.get(self._i64, access.offset),
            "strides": ir.DenseI64ArrayAttr.get(list(access.strides)),
        })
        return op.results[0]

    def whole(self, x: Value) -> Value:
        """``x`` as a value that is its own buffer."""
        return x if x.tensor_ is x.base and x.tensor_ is not None else Value(self.tensor(x), x.shape, x.dtype)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Row-major reshape to ``shape`` (no -1)."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        access = x.access.reshape(shape)
        return x.at(access) if access is not None else self.reshape(self.whole(x), shape)

    def strided(self, x: Value, access: Strided) -> Value:
        """``access`` on the row-major flattening of ``x``."""
        if x.access.is_contiguous():
            return x.at(Strided(access.sizes, access.strides, access.offset + x.access.offset))
        return self.whole(x).at(access)

    def update(self, base: Value, value: Value, access: Strided) -> Value:
        """``base`` with ``value`` written at ``access`` of its flattening."""
        ir = self.ir
        if access.numel == 0:
            return base
        return self.create("ftm.update", base.dtype, base.shape, [self.tensor(base), self.tensor(value)], {
            "offset": ir.IntegerAttr.get(self._i64, access.offset),
            "strides": ir.DenseI64ArrayAttr.get(list(access.strides)),
        })

    # --- generics -------------------------------------------------------------------------------------

    def generic(self, loops: Sequence[int], inputs: Sequence[Input], outputs: Sequence[Output],
                body: Callable[..., Any], reduced: Sequence[int] = ()) -> tuple[Value, ...]:
        """One ``linalg.generic``.

        Args:
            loops: extent of each loop.
            inputs, outputs: operands with their index in terms of the loops.
            body: takes an Elem for each input, then one for each output that has an ``init``; gives an Elem
                (or a tuple) for the outputs, each of the output's dtype.
            reduced: the loops that are reductions.

        Returns:
            One Value for each output.
        """
        ir = self.ir
        rank = len(loops)
        reading = [self._operand(i.value, i.index, loops) for i in inputs]
        seen = {k for index in (*(i for _, i in reading), *(o.index for o in outputs)) for k in index if isinstance(k, int)}
        hidden = [k for k in range(rank) if k not in seen]
        if hidden:  # linalg takes a loop's extent from an operand that it indexes alone
            reading.append((self.empty("i8", [loops[k] for k in hidden]), tuple(hidden)))
        starts = [self._init(o) for o in outputs]
        maps = [self._map(rank, index) for _, index in reading] + [self._map(rank, o.index) for o in outputs]
        iterators = tuple(k in reduced for k in range(rank))
        if iterators not in self._iterators:
            self._iterators[iterators] = ir.ArrayAttr.get([self._reduction if r else self._parallel for r in iterators])
        op = ir.Operation.create(
            "linalg.generic",
            [self.tensor_type(o.dtype, o.shape) for o in outputs],
            [value for value, _ in reading] + starts,
            {
                "indexing_maps": ir.ArrayAttr.get(maps),
                "iterator_types": self._iterators[iterators],
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(reading), len(outputs)]),
            },
            regions=1,
        )
        tokens = [i.value.dtype for i in inputs] + ["i8"] * bool(hidden) + [o.dtype for o in outputs]
        block = op.regions[0].blocks.append(*[self.emitter.type(t) for t in tokens])
        arguments = [Elem(self.emitter, v, t) for v, t in zip(block.arguments, tokens, strict=True)]
        carried = [a for a, o in zip(arguments[len(reading) :], outputs, strict=True) if o.init is not None]
        with ir.InsertionPoint(block):
            yielded = body(*arguments[: len(inputs)], *carried)
            elems = yielded if isinstance(yielded, tuple) else (yielded,)
            for elem, output in zip(elems, outputs, strict=True):
                assert elem.dtype == output.dtype, f"the body yields {elem.dtype}, the output is {output.dtype}"
            ir.Operation.create("linalg.yield", [], [e.value for e in elems])
        return tuple(Value(r, o.shape, o.dtype) for r, o in zip(op.results, outputs, strict=True))

    def _init(self, output: Output) -> Any:
        if output.init is None:
            return self.empty(output.dtype, output.shape)
        if isinstance(output.init, Value):
            return self.tensor(output.init)
        return self._filled(self.constant(output.init, output.dtype), output.dtype, output.shape)

    def _operand(self, x: Value, index: Sequence[Any], loops: Sequence[int]) -> tuple[Any, tuple[Any, ...]]:
        """The MLIR tensor to read and its index: straight from the base where the access is a permutation
        or broadcast of all of it.  An extent of 1 is read at 0, unless its loop has one iteration as well."""

        def place(k: int | None) -> Any:
            if k is None or index[k] is None:
                return None
            single = isinstance(index[k], int) and loops[index[k]] == 1
            return index[k] if x.shape[k] != 1 or single else None

        through = _through(x) if x.tensor_ is None else None
        if through is not None:
            return x.base, tuple(place(k) for k in through)
        return self.tensor(x), tuple(place(k) for k in range(x.rank))

    def _map(self, rank: int, index: Sequence[Any]) -> Any:
        key: Any = (rank, *(i if i is None or isinstance(i, int) else str(i) for i in index))
        if key not in self._maps:
            ir = self.ir
            exprs = [
                ir.AffineExpr.get_constant(0) if i is None else ir.AffineExpr.get_dim(i) if isinstance(i, int) else i
                for i in index
            ]
            self._maps[key] = ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, exprs))
        return self._maps[key]

    def pointwise(self, body: Callable[..., Any], inputs: Sequence[Value], *outputs: TensorType) -> Any:
        """An elementwise generic over the first output's shape; inputs broadcast to it from the right.

        Returns one Value, or a tuple for several outputs.
        """
        shape = outputs[0].shape
        rank = len(shape)
        reading = [Input(x, range(rank - x.rank, rank)) for x in inputs]
        writing = [Output(o.dtype, o.shape, range(rank)) for o in outputs]
        values = self.generic(shape, reading, writing, body)
        return values if len(outputs) > 1 else values[0]

    def cast(self, x: Value, dtype: str) -> Value:
        """``x`` converted to ``dtype``."""
        if x.dtype == dtype:
            return x
        if info(x.dtype).kind == info(dtype).kind == "int" and info(x.dtype).bits == info(dtype).bits:
            return self.relabel(x, dtype)
        return self.pointwise(lambda e: e.to(dtype), [x], TensorType(dtype, x.shape))

    def relabel(self, x: Value, dtype: str) -> Value:
        """``x`` as a dtype that is the same type from linalg on: other signs, or bytes that mean something else."""
        return Value(x.base, x.base_shape, dtype, x.access)

    def index(self, loop: int) -> Elem:
        """In a body: the number of the current iteration of ``loop``, as i64."""
        op = self.ir.Operation.create(
            "linalg.index", [self.emitter.type("index")], [], {"dim": self.ir.IntegerAttr.get(self._i64, loop)}
        )
        return self.emitter.emit("arith.index_cast", "i64", Elem(self.emitter, op.results[0], "index"))

    def extract(self, x: Value, indices: Sequence[Elem]) -> Elem:
        """In a body: the element of ``x`` at integer ``indices``, which must lie inside it."""
        positions = [self.emitter.emit("arith.index_cast", "index", i).value for i in indices]
        op = self.ir.Operation.create("tensor.extract", [self.emitter.type(x.dtype)], [self.tensor(x), *positions])
        return Elem(self.emitter, op.results[0], x.dtype)

    def pad(self, x: Value, low: Sequence[int], high: Sequence[int], fill: Any) -> Value:
        """``x`` with a border; see `builder_ops.pad`."""
        from ftm_backend.frontend.builder_ops import pad

        return pad(self, x, low, high, fill)

    # --- dtypes ---------------------------------------------------------------------------------------

    def promoted(self, operands: Sequence[Any]) -> str:
        """PyTorch's result dtype of Values and scalar Elems."""
        return promote_operands(
            (o.dtype, "number" if isinstance(o, Elem) else "tensor" if o.rank else "scalar") for o in operands
        )

    def compute(self, dtype: str) -> str:
        """The dtype of arithmetic for values of ``dtype``."""
        return compute_dtype(dtype)

    def inline(self, x: Any, dtype: str) -> Any:
        """A scalar argument (Elem, Python number or bool) as an Elem of ``dtype``."""
        return x.to(dtype) if isinstance(x, Elem) else self.constant(x, dtype)


def _through(x: Value) -> tuple[int | None, ...] | None:
    """For each dimension of x's base the dimension of x that walks it (None: extent 1), or None if x does
    not read its base whole, dimension by dimension."""
    if x.access.offset:
        return None
    places = {}
    for k, (size, stride) in enumerate(zip(x.access.sizes, x.access.strides, strict=True)):
        if size > 1 and stride:
            if stride in places:
                return None
            places[stride] = k
    units = [k for k, size in enumerate(x.access.sizes) if size == 1]
    through: list[int | None] = []
    for size, stride in zip(x.base_shape, contiguous_strides(x.base_shape), strict=True):
        if size == 1:
            through.append(units.pop(0) if units else None)
            continue
        k = places.pop(stride, None)
        if k is None or x.access.sizes[k] != size:
            return None
        through.append(k)
    return None if places else tuple(through)
