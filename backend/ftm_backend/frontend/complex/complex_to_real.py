"""Transform: replace complex tensors of shape s by real tensors of shape s x 2.

The bytes of the buffer are the same, so nothing is copied at the program's inputs and outputs, and
later stages have no complex numbers. Views, copies, conversions and moves apply to the tensor with
the added dimension. Arithmetic is rewritten in the real and imaginary parts, which are views. The
other modules of this package contain the rewrite of each op; ops without one run on the CPU for
complex tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeGuard, TypeVar

from ftm_backend.dtypes import PART
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.trace.trace import (
    Argument,
    Complex,
    DType,
    Node,
    Ref,
    ScalarRef,
    TensorType,
    Trace,
    TraceError,
)

F = TypeVar("F", bound=Callable[..., Ref])

OPS: dict[str, Callable[..., Ref]] = {}
"""By op name: a function of (rewriter, result type, **arguments), with arguments as in the
trace."""


def expand_complex(trace: Trace) -> tuple[Trace, list[int]]:
    """Return the trace without complex types, and the original position of each of its nodes."""
    types = [*trace.params, *(t for node in trace.nodes for t in node.results)]
    complex_numbers = any(is_complex_number(v) for node in trace.nodes for _, v in node.args)
    if not complex_numbers and not any(t is not None and t.dtype in PART for t in types):
        return trace, list(range(len(trace.nodes)))
    return ComplexRewriter(trace).run()


def is_complex_number(value: object) -> TypeGuard[tuple[Argument, Argument]]:
    """Whether an argument is a complex number: two numbers or runtime scalars."""
    if isinstance(value, Complex):
        return True
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(v, ScalarRef) for v in value)
    )


def rewrites(names: str) -> Callable[[F], F]:
    """Decorator: register a rewrite for `names`, separated by blanks."""

    def register(function: F) -> F:
        for name in names.split():
            OPS[name] = function
        return function

    return register


def real_type(type_: TensorType | None) -> TensorType | None:
    """Return the real type with the same bytes."""
    if type_ is None or type_.dtype not in PART:
        return type_
    return TensorType(PART[type_.dtype], (*type_.shape, 2))


class ComplexRewriter:
    """Builds the new trace; values are its Refs."""

    def __init__(self, trace: Trace) -> None:
        """Declare the parameters."""
        self.source = trace
        self.old_types = trace.types()
        self.params = [real_type(t) for t in trace.params]
        self.types: list[TensorType | None] = list(self.params)
        self.values: list[Ref] = [Ref(i) for i in range(len(trace.params))]
        self.nodes: list[Node] = []
        self.origins: list[int] = []
        self.position = 0

    def run(self) -> tuple[Trace, list[int]]:
        """Rewrite all nodes; return the trace and the original position of each node."""
        for self.position, node in enumerate(self.source.nodes):
            self.node(node)
        results = [self.values[i].index for i in self.source.results]
        params = [p for p in self.params if p is not None]
        source = self.source
        return Trace(params, source.scalars, self.nodes, results, source.symbols), self.origins

    def node(self, node: Node) -> None:
        """Rewrite or copy a node."""
        operands = [self.old_types[index] for index in node.values]
        number = any(is_complex_number(v) for _, v in node.args)
        if not number and not any(
            t is not None and t.dtype in PART for t in (*operands, *node.results)
        ):
            args = tuple((k, self.renamed(v)) for k, v in node.args)
            self.values.extend(self.emit_all(node.op, args, node.results))
            return
        rewrite, result = OPS.get(node.op), node.results[0]
        if rewrite is None or result is None:
            raise TraceError(f"{node.op} does not support complex tensors")
        arguments = {k: self.argument(v) for k, v in node.args}
        parameters = inspect.signature(rewrite).parameters
        output = rewrite(
            self,
            result,
            **{k: v for k, v in arguments.items() if k in parameters or "_" in parameters},
        )
        self.values.append(output)

    def renamed(self, value: Argument) -> Argument:
        """Replace references by those of the new trace."""
        if isinstance(value, Ref):
            return self.values[value.index]
        return (
            tuple(map(self.renamed, value))
            if isinstance(value, tuple) and not isinstance(value, Complex)
            else value
        )

    def argument(self, value: Argument) -> object:
        """Convert an argument for a rewrite: tensors become ComplexTensors, with their old type."""
        if isinstance(value, Ref):
            return ComplexTensor(self.values[value.index], self.old_types[value.index])
        return (
            tuple(map(self.argument, value))
            if isinstance(value, tuple) and not isinstance(value, Complex)
            else value
        )

    # --- what rewrites build with
    # -----------------------------------------------------------------------

    def emit_all(
        self, op: str, args: Iterable[tuple[str, Argument]], results: Sequence[TensorType | None]
    ) -> list[Ref]:
        """Append a node and return its results."""
        self.nodes.append(Node.of(op, tuple(args), results))
        self.origins.append(self.position)
        first = len(self.types)
        self.types.extend(results)
        return [Ref(first + k) for k in range(len(results))]

    def emit(self, op: str, result: TensorType | None, /, **args: Argument) -> Ref:
        """Append a node with one result and return it."""
        return self.emit_all(op, args.items(), [result])[0]

    def shape(self, x: Ref) -> tuple[int, ...]:
        """Return the shape of a value."""
        type_ = self.types[x.index]
        assert type_ is not None, "an undefined tensor has no shape"
        return type_.shape

    def dtype(self, x: Ref) -> str:
        """Return the dtype of a value."""
        type_ = self.types[x.index]
        assert type_ is not None, "an undefined tensor has no dtype"
        return type_.dtype

    def view(self, base: Ref, sizes: Iterable[int], strides: Iterable[int], offset: int = 0) -> Ref:
        """Append a strided view."""
        type_ = TensorType(self.dtype(base), tuple(sizes))
        return self.emit(
            "ftm.view", type_, base=base, sizes=tuple(sizes), strides=tuple(strides), offset=offset
        )

    def part(self, pair: Ref, number: int) -> Ref:
        """Return a view of the real (0) or imaginary (1) parts."""
        sizes = self.shape(pair)[:-1]
        return self.view(pair, sizes, [2 * s for s in row_major(sizes)], number)

    def join(self, real: Ref, imaginary: Ref | None) -> Ref:
        """Interleave real and imaginary parts of one type; None stands for zeros."""
        sizes = self.shape(real)
        strides = tuple(2 * s for s in row_major(sizes))
        type_ = TensorType(self.dtype(real), (*sizes, 2))
        pair = self.emit("aten::zeros", type_, size=type_.shape, dtype=DType(type_.dtype))
        if type_.numel == 0:
            return pair
        for offset, part in enumerate((real, imaginary)):
            if part is not None:
                pair = self.emit(
                    "ftm.update",
                    type_,
                    base=pair,
                    value=part,
                    sizes=sizes,
                    strides=strides,
                    offset=offset,
                )
        return pair

    def cast(self, x: Ref, dtype: str) -> Ref:
        """Append a conversion unless the dtype is right."""
        if self.dtype(x) == dtype:
            return x
        return self.emit(
            "aten::_to_copy",
            TensorType(dtype, self.shape(x)),
            self=x,
            dtype=DType(dtype),
            memory_format=None,
        )

    def expand(self, x: Ref, sizes: tuple[int, ...]) -> Ref:
        """Append a broadcast unless the shape is right."""
        if self.shape(x) == sizes:
            return x
        return self.emit(
            "aten::expand", TensorType(self.dtype(x), sizes), self=x, size=sizes, implicit=False
        )

    def unary(self, op: str, x: Ref) -> Ref:
        """Append a unary ATen op that keeps the type."""
        return self.emit(f"aten::{op}", TensorType(self.dtype(x), self.shape(x)), self=x)

    def binary(self, op: str, x: Ref, y: Argument, **more: Argument) -> Ref:
        """Append a binary ATen op on tensors of one type, or a tensor and a runtime scalar."""
        return self.emit(
            f"aten::{op}", TensorType(self.dtype(x), self.shape(x)), self=x, other=y, **more
        )

    def add(self, x: Ref, y: Argument) -> Ref:
        """Append an addition."""
        return self.binary("add.Tensor", x, y, alpha=1)

    def sub(self, x: Ref, y: Argument) -> Ref:
        """Append a subtraction."""
        return self.binary("sub.Tensor", x, y, alpha=1)

    def mul(self, x: Ref, y: Argument) -> Ref:
        """Append a multiplication."""
        return self.binary("mul.Tensor", x, y)

    def full(self, dtype: str, sizes: tuple[int, ...], number: Argument) -> Ref:
        """Append a tensor filled with a number."""
        return self.emit(
            "aten::full",
            TensorType(dtype, sizes),
            size=sizes,
            fill_value=number,
            dtype=DType(dtype),
        )

    def parts(self, x: Operand, type_: TensorType) -> tuple[Ref, Ref | None]:
        """Return real and imaginary parts of an operand, converted to the complex type `type_`.

        The imaginary part of a real operand is None.
        """
        dtype, sizes = PART[type_.dtype], type_.shape
        if not isinstance(x, ComplexTensor):
            real, imaginary = x if is_complex_number(x) else (x, None)
            return self.full(dtype, sizes, real), None if imaginary is None else self.full(
                dtype, sizes, imaginary
            )
        if x.type.dtype in PART:
            real, imaginary = (
                self.expand(self.cast(self.part(x.ref, k), dtype), sizes) for k in (0, 1)
            )
            return real, imaginary
        return self.expand(self.cast(x.ref, dtype), sizes), None


class ComplexTensor:
    """An operand of a rewrite: its value in the new trace, and its type in the old trace."""

    def __init__(self, ref: Ref, type_: TensorType | None) -> None:
        """Wrap a value."""
        assert type_ is not None, "an undefined tensor is no operand"
        self.ref, self.type = ref, type_


Operand: TypeAlias = "ComplexTensor | Argument"
"""A tensor, or a real or complex number."""
