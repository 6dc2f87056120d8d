"""What lowerings build with: values of the program, and loop nests over them made of scalar
expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftm_backend.dtypes import compute_dtype, info, memory, promote_operands
from ftm_backend.frontend.loop_operands import Index, LoopInput, LoopOutput, OperandDim, affine
from ftm_backend.frontend.scalar_math import Number, ScalarEmitter, ScalarExpr
from ftm_backend.frontend.strided_value import StridedValue
from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.affine import Affine, dot, row_major
from ftm_backend.ir.linalg.scalar_nodes import gather_place, recognise_reduction
from ftm_backend.ir.linalg.strided_layout import Strided, compose
from ftm_backend.ir.trace.trace import TensorType
from ftm_backend.symbolic import SymFloat, SymInt, always_equal, seen_equal

__all__ = [
    "Body",
    "LinalgBuilder",
    "LoopInput",
    "LoopOutput",
    "LoweringError",
    "OperandDim",
    "StridedValue",
]


Body = Callable[..., ScalarExpr | tuple[ScalarExpr, ...]]
"""What a loop nest computes: from the elements that it reads to those that it writes."""


class LoweringError(ValueError):
    """An op whose arguments the compiler does not take; the message says which and why."""


class LinalgBuilder:
    """Builds one function; ``results`` holds the result types of the op being lowered."""

    def __init__(self) -> None:
        self.emitter = ScalarEmitter()
        self.function = function.LinalgFunction()
        self.results: tuple[TensorType | None, ...] = ()
        self._rank = 0
        self._gathers: list[function.Value] = []
        self.copies: dict[tuple[int, Strided], tuple[function.Value, StridedValue]] = {}
        # i64 places of maxima found here -> their windows, and the places in a narrow type
        self.pooled: dict[function.Value, Any] = {}

    @property
    def result(self) -> TensorType:
        """Type of the op's first result."""
        return self.wanted(0)

    def wanted(self, number: int) -> TensorType:
        """Type of one of the op's results, which is defined."""
        found = self.results[number]
        assert found is not None, f"result {number} is an undefined tensor"
        return found

    # --- values
    # ---------------------------------------------------------------------------------------

    def input(self, type_: TensorType) -> StridedValue:
        """The next tensor argument of the function."""
        base = function.Value(info(type_.dtype).builtin, type_.shape)
        self.function.inputs.append(base)
        self.function.input_types.append(memory(type_.dtype))
        return StridedValue(base, type_.dtype)

    def scalar(self, dtype: str) -> ScalarExpr:
        """The next runtime number of the function, ``f64`` or ``i64``."""
        node = function.Node("scalar", dtype, payload=f"s{len(self.function.scalars)}")
        self.function.scalars.append(node)
        return ScalarExpr(self.emitter, node, dtype, True)

    def dim(self, loop: int) -> OperandDim:
        """The counter of a loop, for places."""
        return OperandDim(0, {loop: 1})

    def constant(self, value: float | SymInt | SymFloat, dtype: str) -> ScalarExpr:
        """A scalar constant."""
        return self.emitter.constant(value, dtype)

    def empty(self, dtype: str, shape: Sequence[int]) -> StridedValue:
        """A tensor whose elements will all be written."""
        return StridedValue(function.Value(info(dtype).builtin, tuple(shape)), dtype)

    def full(self, fill: Number, dtype: str, shape: Sequence[int]) -> StridedValue:
        """A tensor of one number; ``fill`` is an Elem or a Python number."""
        elem = fill.to(dtype) if isinstance(fill, ScalarExpr) else self.constant(fill, dtype)
        return StridedValue(
            function.Value(info(dtype).builtin, tuple(shape), splat=elem.node), dtype
        )

    def numbers(self, values: Sequence[float], dtype: str) -> StridedValue:
        """A one-dimensional constant tensor."""
        elems = [self.constant(v, dtype).node.payload for v in values]
        if values and all(repr(v) == repr(elems[0]) for v in elems):
            return self.full(elems[0], dtype, (len(elems),))
        return StridedValue(function.constant(elems, info(dtype).builtin), dtype)

    def tensor(self, x: StridedValue) -> function.Tensor:
        """``x`` for an operation that reads it as a whole."""
        return function.Tensor(x.base, x.access)

    def copy(self, x: StridedValue) -> StridedValue:
        """A dense copy; one for all who ask for the same."""
        key = id(x.base), x.access
        found = self.copies.get(key)
        if found is None:
            made = function.copy_statement(self.tensor(x))
            self.function.body.append(made)
            # the key's value stays alive
            found = self.copies[key] = (x.base, StridedValue(made.results[0].value, x.dtype))
        return found[1]

    # --- views
    # ----------------------------------------------------------------------------------------

    def reshape(self, x: StridedValue, shape: Sequence[int]) -> StridedValue:
        """Row-major reshape to ``shape`` (no -1)."""
        shape = tuple(shape)
        if len(shape) == len(x.shape) and all(map(seen_equal, shape, x.shape)):
            return x
        access = x.access.reshape(shape)
        return x.at(access) if access is not None else self.reshape(self.copy(x), shape)

    def strided(self, x: StridedValue, access: Strided) -> StridedValue:
        """``access`` on the row-major flattening of ``x``."""
        if x.access.is_contiguous():
            return x.at(Strided(access.sizes, access.strides, access.offset + x.access.offset))
        composed = compose(access, x.access)
        return x.at(composed) if composed is not None else self.copy(x).at(access)

    def update(self, base: StridedValue, value: StridedValue, access: Strided) -> StridedValue:
        """``base`` with ``value`` written at ``access`` of its flattening."""
        return self.placed(base, [(value, access)])

    def placed(
        self, base: StridedValue, parts: Sequence[tuple[StridedValue, Strided]]
    ) -> StridedValue:
        """``base`` with several parts written over it; no two of them have an element in common."""
        written = [
            function.WindowPart(
                self.tensor(value), Strided(value.shape, access.strides, access.offset)
            )
            for value, access in parts
            if access.numel
        ]
        if not written:
            return base
        result = function.Value(base.base.dtype, base.shape)
        result.producer = function.Update(result, self.tensor(base), written)
        self.function.body.append(result.producer)
        return StridedValue(result, base.dtype)

    # --- operations on whole tensors
    # --------------------------------------------------------------------

    def create(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        operands: Sequence[function.Tensor],
        attributes: dict[str, Any] | None = None,
    ) -> StridedValue:
        """An operation that is no loop nest: ``ftm.scatter``, ``ftm.scan`` or ``ftm.sort``."""
        result = function.Value(info(dtype).builtin, tuple(shape))
        self.function.body.append(
            function.whole_statement(name, operands, result, attributes or {})
        )
        return StridedValue(result, dtype)

    # --- loop nests
    # -----------------------------------------------------------------------------------

    def generic(
        self,
        loops: Sequence[int],
        inputs: Sequence[LoopInput],
        outputs: Sequence[LoopOutput],
        body: Body,
        reduced: Sequence[int] = (),
    ) -> tuple[StridedValue, ...]:
        """One loop nest, or a view where it only moves elements.

        Args:
            loops: extent of each loop. inputs, outputs: operands with their index in terms of the
            loops. body: takes an Elem for each input, then one for each output that has an
            ``init``; gives an Elem
                (or a tuple) for the outputs, each of the output's dtype.
            reduced: the loops that are reductions.

        Returns:
            One Value for each output.
        """
        made = self._nest(tuple(loops), inputs, outputs, body, reduced)
        statement = self.function.body[-1]
        assert isinstance(statement, function.Statement)
        moved = statement.moved()
        if moved is None:
            return made
        self.function.body.pop()
        return (StridedValue(moved.value, outputs[0].dtype, moved.view),)

    def _nest(
        self,
        loops: tuple[int, ...],
        inputs: Sequence[LoopInput],
        outputs: Sequence[LoopOutput],
        body: Body,
        reduced: Sequence[int],
    ) -> tuple[StridedValue, ...]:
        rank = len(loops)
        before = self._rank, self._gathers
        self._rank, self._gathers = rank, []
        operands: list[function.Operand] = []
        elems = [self._read(i.value, i.index, loops, operands) for i in inputs]
        marks = tuple(k in reduced for k in range(rank))
        carried = any(marks)
        for number, output in enumerate(outputs):
            if output.init is None:
                continue
            if carried:
                node = function.Node("carry", info(output.dtype).builtin, payload=number)
                elems.append(ScalarExpr(self.emitter, node, output.dtype))
            elif isinstance(output.init, StridedValue):
                elems.append(self._read(output.init, output.index, loops, operands))
            else:
                elems.append(self.constant(output.init, output.dtype))
        yielded = body(*elems)
        yields = yielded if isinstance(yielded, tuple) else (yielded,)
        results: list[function.FunctionResult] = []
        for elem, output in zip(yields, outputs, strict=True):
            if elem.dtype != output.dtype:
                raise TypeError(f"the body yields {elem.dtype}, the output is {output.dtype}")
            indices = tuple(affine(k, rank) for k in output.index)
            value = function.Value(info(output.dtype).builtin, tuple(output.shape))
            result = function.FunctionResult(
                value, dot(indices, row_major(output.shape), 0, rank), indices, elem.node
            )
            if carried:
                result.init = self._start(output, indices, rank)
                recognise_reduction(result, len(results))
            results.append(result)
        used = {id(n.payload) for n in function.nodes_of(results) if n.op == "in"}
        statement = function.Statement(
            "linalg.generic",
            loops,
            marks,
            [o for o in operands if id(o) in used],
            results,
            list(dict.fromkeys(self._gathers)),
        )
        for result in results:
            result.value.producer = statement
        self.function.body.append(statement)
        self._rank, self._gathers = before
        return tuple(StridedValue(r.value, o.dtype) for r, o in zip(results, outputs, strict=True))

    def _start(
        self, output: LoopOutput, indices: tuple[Affine, ...], rank: int
    ) -> function.Node | function.Operand:
        if not isinstance(output.init, StridedValue):
            assert output.init is not None, "a reduction starts from something"
            return self.constant(output.init, output.dtype).node
        base, access = output.init.base, output.init.access
        return base.splat or function.Operand(
            base, dot(indices, access.strides, access.offset, rank)
        )

    def _read(
        self, x: StridedValue, index: Index, loops: Sequence[int], operands: list[function.Operand]
    ) -> ScalarExpr:
        """The element of an operand; an extent of 1 is read at 0, unless its loop has one iteration
        as well."""
        if x.base.splat is not None:
            return ScalarExpr(self.emitter, x.base.splat, x.dtype, True)
        const, coeffs = x.access.offset, [0] * len(loops)
        for k, size, stride in zip(index, x.access.sizes, x.access.strides, strict=True):
            if k is None or _is_one(size, loops[k] if isinstance(k, int) else None):
                continue
            if isinstance(k, int):
                coeffs[k] += stride
            else:
                const += k.const * stride
                for loop, factor in k.factors.items():
                    coeffs[loop] += factor * stride
        operand = function.Operand(x.base, Affine(const, tuple(coeffs)))
        operands.append(operand)
        return ScalarExpr(self.emitter, function.Node("in", x.base.dtype, payload=operand), x.dtype)

    def pointwise(
        self, body: Body, inputs: Sequence[StridedValue], output: TensorType
    ) -> StridedValue:
        """An elementwise nest over the output's shape; inputs broadcast to it from the right."""
        return self.pointwise_all(body, inputs, [output])[0]

    def pointwise_all(
        self, body: Body, inputs: Sequence[StridedValue], outputs: Sequence[TensorType]
    ) -> tuple[StridedValue, ...]:
        """The same with several outputs, of one shape."""
        shape = outputs[0].shape
        rank = len(shape)
        reading = [LoopInput(x, range(rank - x.rank, rank)) for x in inputs]
        writing = [LoopOutput(o.dtype, o.shape, range(rank)) for o in outputs]
        return self.generic(shape, reading, writing, body)

    def cast(self, x: StridedValue, dtype: str) -> StridedValue:
        """``x`` converted to ``dtype``."""
        if x.dtype == dtype:
            return x
        if (
            info(x.dtype).kind == info(dtype).kind == "int"
            and info(x.dtype).bits == info(dtype).bits
        ):
            return self.relabel(x, dtype)
        return self.pointwise(lambda e: e.to(dtype), [x], TensorType(dtype, x.shape))

    def relabel(self, x: StridedValue, dtype: str) -> StridedValue:
        """``x`` as a dtype that is the same type from linalg on: other signs, or bytes that mean
        something else."""
        return StridedValue(x.base, dtype, x.access)

    def index(self, loop: int) -> ScalarExpr:
        """In a body: the number of the current iteration of ``loop``, as i64."""
        return ScalarExpr(
            self.emitter,
            function.Node("index", "i64", payload=Affine.loop(loop, self._rank)),
            "i64",
        )

    def extract(self, x: StridedValue, indices: Sequence[ScalarExpr]) -> ScalarExpr:
        """In a body: the element of ``x`` at integer ``indices``, which must lie inside it."""
        places = [i.node for i in indices]
        if x.base.splat is not None:
            if all(
                _stays_inside(place, extent)
                for place, extent in zip(places, x.access.sizes, strict=True)
            ):
                return ScalarExpr(self.emitter, x.base.splat, x.dtype, True)
            # a place outside has to fault, even where memory holds one number throughout
            x = self.copy(x)
        access = x.access
        flat = gather_place(places, access.sizes, access.strides, access.offset)
        self._gathers.append(x.base)
        return ScalarExpr(
            self.emitter, function.Node("gather", x.base.dtype, (flat,), x.base), x.dtype
        )

    def pad(
        self, x: StridedValue, low: Sequence[int], high: Sequence[int], fill: Number
    ) -> StridedValue:
        """``x`` with a border; see `builder_ops.pad`."""
        from ftm_backend.frontend.named_op_builder import pad

        return pad(self, x, low, high, fill)

    # --- dtypes
    # ---------------------------------------------------------------------------------------

    def promoted(self, operands: Sequence[StridedValue | Number]) -> str:
        """PyTorch's result dtype of Values and scalars (Elems, Python numbers or bools)."""
        numbers: dict[type, str] = {bool: "i1", int: "i64", float: "f64"}
        return promote_operands(
            (o.dtype, "number" if isinstance(o, ScalarExpr) else "tensor" if o.rank else "scalar")
            if isinstance(o, (ScalarExpr, StridedValue))
            else (numbers[type(o)], "number")
            for o in operands
        )

    def compute(self, dtype: str) -> str:
        """The dtype of arithmetic for values of ``dtype``."""
        return compute_dtype(dtype)

    def inline(self, x: Number, dtype: str) -> ScalarExpr:
        """A scalar argument (Elem, Python number or bool) as an Elem of ``dtype``."""
        return x.to(dtype) if isinstance(x, ScalarExpr) else self.constant(x, dtype)


def _is_one(size: int, loop: int | None) -> bool:
    """Whether an extent is 1, which has no stride; one that is its loop's is walked, whatever it
    is."""
    walked = loop is not None and isinstance(size, SymInt) and always_equal(size, loop)
    return not walked and size == 1


def _stays_inside(place: function.Node, extent: int) -> bool:
    """Whether a place is known to lie inside: a number that does, or one that the lowering itself
    has counted."""
    if place.op == "constant":
        return 0 <= place.payload < extent
    found = {n.op for n in function.walk([place])}
    return "index" in found and not found & {"in", "gather", "carry", "scalar"}
