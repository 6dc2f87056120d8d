"""`LinalgBuilder`: builds a linalg function from tensors and loop nests over scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ftm_backend.dtypes import info, memory, promote_operands
from ftm_backend.frontend.nest_operands import Index, LoopInput, LoopOutput, OperandDim, affine
from ftm_backend.frontend.scalar_math import Number, ScalarEmitter, ScalarExpr
from ftm_backend.frontend.strided_value import StridedValue
from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.affine import Affine, dot, row_major, volume
from ftm_backend.ir.linalg.body_builder import gather_index, recognize_reduction
from ftm_backend.ir.linalg.strided_view import Strided, compose
from ftm_backend.ir.trace.trace import TensorType
from ftm_backend.symbolic import SymFloat, SymInt, guarded_equal, statically_known_equal

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
"""A loop nest's body: a function from the elements read to the elements written."""


class LoweringError(ValueError):
    """The compiler does not support these arguments of an op; the message gives the reason."""


if TYPE_CHECKING:
    from ftm_backend.frontend.oplib.sliding_windows import SlidingWindow


class LinalgBuilder:
    """Builds one linalg function.

    Attributes:
        emitter: Creates scalar nodes.
        function: The function being built.
        results: Result types of the op that is being lowered.
        copies: Dense copies made so far, by base and access.
        pooled: For the i64 indices of a max pooling, its windows and the same indices in a narrow
            type.
    """

    def __init__(self) -> None:
        """Start an empty function."""
        self.emitter = ScalarEmitter()
        self.function = function.LinalgFunction()
        self.results: tuple[TensorType | None, ...] = ()
        self._rank = 0
        self._gathers: list[function.Value] = []
        self.copies: dict[tuple[int, Strided], tuple[function.Value, StridedValue]] = {}
        # i64 indices of a max pooling -> its windows, and the indices in a narrow type
        self.pooled: dict[function.Value, tuple[SlidingWindow, StridedValue]] = {}

    @property
    def result(self) -> TensorType:
        """Type of the op's first result."""
        return self.result_type(0)

    def result_type(self, number: int) -> TensorType:
        """Return the type of one of the op's results, which must be defined."""
        type_ = self.results[number]
        assert type_ is not None, f"result {number} is an undefined tensor"
        return type_

    # --- values
    # ---------------------------------------------------------------------------------------

    def input(self, type_: TensorType) -> StridedValue:
        """Append a tensor argument to the function."""
        base = function.Value(info(type_.dtype).builtin, type_.shape)
        self.function.inputs.append(base)
        self.function.input_types.append(memory(type_.dtype))
        return StridedValue(base, type_.dtype)

    def scalar(self, dtype: str) -> ScalarExpr:
        """Append a runtime scalar argument of dtype ``f64`` or ``i64`` to the function."""
        node = function.Node("scalar", dtype, payload=f"s{len(self.function.scalars)}")
        self.function.scalars.append(node)
        return ScalarExpr(self.emitter, node, dtype, True)

    def dim(self, loop: int) -> OperandDim:
        """Return the counter of a loop, for affine indices."""
        return OperandDim(0, {loop: 1})

    def constant(self, value: float | SymInt | SymFloat, dtype: str) -> ScalarExpr:
        """Create a scalar constant."""
        return self.emitter.constant(value, dtype)

    def empty(self, dtype: str, shape: Sequence[int]) -> StridedValue:
        """Return an uninitialized tensor; the caller writes all elements."""
        return StridedValue(function.Value(info(dtype).builtin, tuple(shape)), dtype)

    def full(self, fill: Number, dtype: str, shape: Sequence[int]) -> StridedValue:
        """Return a tensor with all elements equal to `fill`, a ScalarExpr or a Python number."""
        elem = fill.to(dtype) if isinstance(fill, ScalarExpr) else self.constant(fill, dtype)
        return StridedValue(
            function.Value(info(dtype).builtin, tuple(shape), splat=elem.node), dtype
        )

    def constant_vector(self, values: Sequence[float], dtype: str) -> StridedValue:
        """Return a one-dimensional constant tensor."""
        elems = [self.constant(v, dtype).node.payload for v in values]
        if values and all(repr(v) == repr(elems[0]) for v in elems):
            return self.full(elems[0], dtype, (len(elems),))
        return StridedValue(function.constant(elems, info(dtype).builtin), dtype)

    def tensor(self, x: StridedValue) -> function.Tensor:
        """Return `x` as an operand of an operation that reads it whole."""
        return function.Tensor(x.base, x.access)

    def copy(self, x: StridedValue) -> StridedValue:
        """Return a dense copy; the same value and access share one copy."""
        key = id(x.base), x.access
        found = self.copies.get(key)
        if found is None:
            result = function.copy_statement(self.tensor(x))
            self.function.body.append(result)
            # holds `base`, so that its id stays valid
            found = self.copies[key] = (x.base, StridedValue(result.results[0].value, x.dtype))
        return found[1]

    # --- views
    # ----------------------------------------------------------------------------------------

    def reshape(self, x: StridedValue, shape: Sequence[int]) -> StridedValue:
        """Reshape in row-major order to `shape` (no -1)."""
        shape = tuple(shape)
        if len(shape) == len(x.shape) and all(map(guarded_equal, shape, x.shape)):
            return x
        access = x.access.reshape(shape)
        return x.at(access) if access is not None else self.reshape(self.copy(x), shape)

    def strided(self, x: StridedValue, access: Strided) -> StridedValue:
        """Apply `access` to the row-major flattening of `x`."""
        if x.access.is_contiguous():
            return x.at(Strided(access.sizes, access.strides, access.offset + x.access.offset))
        composed = compose(access, x.access)
        return x.at(composed) if composed is not None else self.copy(x).at(access)

    def update(self, base: StridedValue, value: StridedValue, access: Strided) -> StridedValue:
        """Return `base` with `value` written at `access` of its row-major flattening."""
        return self.insert_slices(base, [(value, access)])

    def insert_slices(
        self, base: StridedValue, parts: Sequence[tuple[StridedValue, Strided]]
    ) -> StridedValue:
        """Return `base` with several disjoint parts overwritten.

        Args:
            base: The tensor to update.
            parts: Values and their accesses into the row-major flattening of `base`.
        """
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
        attributes: dict[str, object] | None = None,
    ) -> StridedValue:
        """Append an operation that is no loop nest, such as ``ftm.scatter`` or ``ftm.sort``.

        Args:
            name: The operation.
            dtype: The result's dtype.
            shape: The result's shape.
            operands: Tensors, read whole.
            attributes: The operation's attributes.

        Returns:
            The result.
        """
        result = function.Value(info(dtype).builtin, tuple(shape))
        self.function.body.append(
            function.whole_statement(name, operands, result, attributes or {})
        )
        return StridedValue(result, dtype)

    def collective(
        self,
        x: StridedValue,
        shape: Sequence[int],
        call: ScalarExpr,
        attributes: dict[str, object],
    ) -> StridedValue:
        """Append a collective to which `x` contributes, and the wait; ``call`` is its number.

        The program does not wait for one that gives this process nothing, such as a send.
        """
        start, result = function.collective(
            function.COLLECTIVE_START, self.tensor(x), tuple(shape), call.node, attributes
        )
        if statically_known_equal(volume(result.shape), 0):
            self.function.body.append(start)
            return StridedValue(result, x.dtype)
        wait, result = function.collective(
            function.COLLECTIVE_WAIT,
            function.Tensor.whole(result),
            tuple(shape),
            call.node,
            {},
        )
        self.function.body += [start, wait]
        return StridedValue(result, x.dtype)

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
        """Append a loop nest; return a view instead if it only moves elements.

        Args:
            loops: Extent of each loop.
            inputs: Operands, with indices in terms of the loops.
            outputs: Results, with indices in terms of the loops.
            body: Takes a ScalarExpr for each input, then one for each output with `init`. Returns a
                ScalarExpr, or a tuple, which is converted to the outputs' dtypes.
            reduced: The reduction loops.

        Returns:
            One StridedValue for each output.
        """
        result = self._nest(tuple(loops), inputs, outputs, body, reduced)
        statement = self.function.body[-1]
        assert isinstance(statement, function.Statement)
        moved = statement.copied_view()
        if moved is None:
            return result
        self.function.body.pop()
        return (StridedValue(moved.value, result[0].dtype, moved.view),)

    def _nest(
        self,
        loops: tuple[int, ...],
        inputs: Sequence[LoopInput],
        outputs: Sequence[LoopOutput],
        body: Body,
        reduced: Sequence[int],
    ) -> tuple[StridedValue, ...]:
        rank = len(loops)
        saved = self._rank, self._gathers
        self._rank, self._gathers = rank, []
        operands: list[function.Operand] = []
        elems = [self._read(i.value, i.index, loops, operands) for i in inputs]
        is_reduced = tuple(k in reduced for k in range(rank))
        has_reduction = any(is_reduced)
        for number, output in enumerate(outputs):
            if output.init is None:
                continue
            if has_reduction:
                node = function.Node("carry", info(output.dtype).builtin, payload=number)
                elems.append(ScalarExpr(self.emitter, node, output.dtype))
            elif isinstance(output.init, StridedValue):
                elems.append(self._read(output.init, output.index, loops, operands))
            else:
                elems.append(self.constant(output.init, output.dtype))
        yielded = body(*elems)
        yields = yielded if isinstance(yielded, tuple) else (yielded,)
        results: list[function.FunctionResult] = []
        dtypes: list[str] = []
        for elem, output in zip(yields, outputs, strict=True):
            elem = elem.to(output.dtype or elem.dtype)
            dtypes.append(elem.dtype)
            indices = tuple(affine(k, rank) for k in output.index)
            value = function.Value(info(elem.dtype).builtin, tuple(output.shape))
            result = function.FunctionResult(
                value, dot(indices, row_major(output.shape), 0, rank), indices, elem.node
            )
            if has_reduction:
                result.init = self._start(output, indices, rank)
                recognize_reduction(result, len(results))
            results.append(result)
        used = {id(n.payload) for n in function.nodes_of(results) if n.op == "in"}
        statement = function.Statement(
            "linalg.generic",
            loops,
            is_reduced,
            [o for o in operands if id(o) in used],
            results,
            list(dict.fromkeys(self._gathers)),
        )
        for result in results:
            result.value.producer = statement
        self.function.body.append(statement)
        self._rank, self._gathers = saved
        return tuple(StridedValue(r.value, dtype) for r, dtype in zip(results, dtypes, strict=True))

    def _start(
        self, output: LoopOutput, indices: tuple[Affine, ...], rank: int
    ) -> function.Node | function.Operand:
        """Return the initial value of a reduction."""
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
        """Return the element of an operand.

        An extent of 1 is read at 0 (broadcast), unless it is provably the extent of its loop.
        """
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
        self, body: Body, inputs: Sequence[StridedValue], output: TensorType | None = None
    ) -> StridedValue:
        """Append an elementwise loop nest; inputs broadcast to the result.

        Args:
            body: Takes a ScalarExpr for each input, and returns the result's.
            inputs: Tensors whose shapes broadcast to the result's, aligned from the right.
            output: Type of the result. By default, it has the first input's shape and the dtype of
                what `body` returns.
        """
        if output is None:
            return self._elementwise(body, inputs, inputs[0].shape, [""])[0]
        return self.pointwise_all(body, inputs, [output])[0]

    def pointwise_all(
        self, body: Body, inputs: Sequence[StridedValue], outputs: Sequence[TensorType]
    ) -> tuple[StridedValue, ...]:
        """Append an elementwise loop nest with several outputs of one shape; see `pointwise`."""
        return self._elementwise(body, inputs, outputs[0].shape, [o.dtype for o in outputs])

    def _elementwise(
        self,
        body: Body,
        inputs: Sequence[StridedValue],
        shape: tuple[int, ...],
        dtypes: Sequence[str],
    ) -> tuple[StridedValue, ...]:
        rank = len(shape)
        loop_inputs = [LoopInput(x, range(rank - x.rank, rank)) for x in inputs]
        loop_outputs = [LoopOutput(dtype, shape, range(rank)) for dtype in dtypes]
        return self.generic(shape, loop_inputs, loop_outputs, body)

    def cast(self, x: StridedValue, dtype: str) -> StridedValue:
        """Convert `x` to `dtype`."""
        if x.dtype == dtype:
            return x
        if (
            info(x.dtype).kind == info(dtype).kind == "int"
            and info(x.dtype).bits == info(dtype).bits
        ):
            return self.reinterpret(x, dtype)
        return self.pointwise(lambda e: e.to(dtype), [x])

    def as_type(self, x: StridedValue, type_: TensorType | None = None) -> StridedValue:
        """Reshape and convert `x` to `type_`, by default that of the op's first result."""
        type_ = self.result if type_ is None else type_
        return self.cast(self.reshape(x, type_.shape), type_.dtype)

    def reinterpret(self, x: StridedValue, dtype: str) -> StridedValue:
        """Reinterpret `x` as a dtype with the same builtin type: other signedness, or float8."""
        return StridedValue(x.base, dtype, x.access)

    def index(self, loop: int) -> ScalarExpr:
        """In a body: return the iteration number of `loop`, as i64."""
        return ScalarExpr(
            self.emitter,
            function.Node("index", "i64", payload=Affine.loop(loop, self._rank)),
            "i64",
        )

    def extract(self, x: StridedValue, indices: Sequence[ScalarExpr]) -> ScalarExpr:
        """In a body: return the element of `x` at integer `indices`, which must be in bounds."""
        nodes = [i.node for i in indices]
        if x.base.splat is not None:
            if all(
                _stays_inside(node, extent)
                for node, extent in zip(nodes, x.access.sizes, strict=True)
            ):
                return ScalarExpr(self.emitter, x.base.splat, x.dtype, True)
            # an index out of bounds must fault even if all elements are equal
            x = self.copy(x)
        access = x.access
        flat = gather_index(nodes, access.sizes, access.strides, access.offset)
        self._gathers.append(x.base)
        return ScalarExpr(
            self.emitter, function.Node("gather", x.base.dtype, (flat,), x.base), x.dtype
        )

    def pad(
        self, x: StridedValue, low: Sequence[int], high: Sequence[int], fill: Number
    ) -> StridedValue:
        """Pad `x` with `fill`; see `named_op_builder.pad`."""
        from ftm_backend.frontend.named_op_builder import pad

        return pad(self, x, low, high, fill)

    # --- dtypes
    # ---------------------------------------------------------------------------------------

    def promoted_dtype(self, operands: Sequence[StridedValue | Number]) -> str:
        """Return PyTorch's result dtype of tensors, ScalarExprs, and Python numbers or bools."""
        numbers: dict[type, str] = {bool: "i1", int: "i64", float: "f64"}
        return promote_operands(
            (o.dtype, "number" if isinstance(o, ScalarExpr) else "tensor" if o.rank else "scalar")
            if isinstance(o, (ScalarExpr, StridedValue))
            else (numbers[type(o)], "number")
            for o in operands
        )

    def scalar_operand(self, x: Number, dtype: str) -> ScalarExpr:
        """Convert a scalar argument (ScalarExpr, number or bool) to a ScalarExpr of `dtype`."""
        return x.to(dtype) if isinstance(x, ScalarExpr) else self.constant(x, dtype)


def _is_one(size: int, loop: int | None) -> bool:
    """Whether a dimension broadcasts: its extent is 1, and not symbolically equal to its loop's."""
    is_loop_extent = (
        loop is not None and isinstance(size, SymInt) and statically_known_equal(size, loop)
    )
    return not is_loop_extent and size == 1


def _stays_inside(index: function.Node, extent: int) -> bool:
    """Whether an index is provably in bounds.

    It is a constant in bounds, or is computed from loop counters and constants only.
    """
    if index.op == "constant":
        return 0 <= index.payload < extent
    op_names = {n.op for n in function.walk([index])}
    return "index" in op_names and not op_names & {"in", "gather", "carry", "scalar"}
