"""Lowering: trace to linalg, by the op records.

The result is a function on dense tensors and runtime scalars (f64, i64). It keeps the memory dtypes
of inputs and outputs, because a ``u8`` tensor is ``i8`` from here on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ftm_backend.dtypes import memory
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoweringError, StridedValue
from ftm_backend.frontend.oplib.op_registry import RECORDS, omitted_arguments, parameter_name
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.function import LinalgFunction, SequentialLoop, Statement, Update
from ftm_backend.ir.linalg.origin import Origin
from ftm_backend.ir.trace.kernel_labels import short_name
from ftm_backend.ir.trace.trace import DType, Node, Ref, ScalarRef, Trace

__all__ = ["LoweringError", "TraceLowering", "lower"]


def lower(trace: Trace) -> LinalgFunction:
    """Lower a verified trace.

    Raises:
        LoweringError: An op has no record, or its record does not support the arguments.
    """
    from ftm_backend.frontend import complex, ops  # noqa: F401  (registers the records)

    origins = _origins(trace)
    trace, positions = complex.expand_complex(trace)
    return TraceLowering(trace, [origins[position] for position in positions]).run()


class TraceLowering:
    """State of one lowering.

    Attributes:
        values: The lowered values, by the trace's numbering.
        scalars: The runtime scalars.
        origins: For each node the recorded operation; None for a view.
    """

    def __init__(self, trace: Trace, origins: Sequence[Origin | None] | None = None) -> None:
        """Declare the function's inputs."""
        self.trace = trace
        self.origins = _origins(trace) if origins is None else origins
        self.builder = LinalgBuilder()
        self.values: list[StridedValue | None] = [
            self.builder.input(type_) for type_ in trace.params
        ]
        self.scalars = [self.builder.scalar(dtype) for dtype in trace.scalars]

    def run(self) -> LinalgFunction:
        """Lower all nodes and return the function."""
        function = self.builder.function
        for node, origin in zip(self.trace.nodes, self.origins, strict=True):
            before = len(function.body)
            self.node(node)
            if origin is not None:
                _set_origin(function.body[before:], origin)
        for number in self.trace.results:
            value = self.values[number]
            assert value is not None, "a trace does not return undefined tensors"
            function.results.append(self.builder.tensor(value))
            function.output_types.append(memory(value.dtype))
        return function

    def node(self, node: Node) -> None:
        """Lower a node and check its results against the trace's types."""
        for value, expected in zip(self.lower_node(node), node.results, strict=True):
            if expected is not None and (value is None or value.type != expected):
                found = "nothing" if value is None else value.type
                raise LoweringError(
                    f"{node.op}: the result is {expected} in the trace,"
                    f" but the lowering gives {found}"
                )
            self.values.append(value)

    def lower_node(self, node: Node) -> tuple[StridedValue | None, ...]:
        """Return the values that the node's op record computes."""
        record = RECORDS.get(node.op)
        if record is None:
            raise LoweringError(
                f"{node.op} has no op record, so it cannot be compiled; add one to frontend/ops"
            )
        omitted = omitted_arguments(record.lower)
        arguments = {
            parameter_name(node.op, name): self.number(value)
            if name in _OPERANDS
            else self.argument(value)
            for name, value in node.args
            if name not in omitted
        }
        self.builder.results = node.results
        try:
            results = record.lower(self.builder, **arguments)
        except (LoweringError, TypeError, KeyError) as error:
            types = ", ".join(f"{k}={_describe(v)}" for k, v in arguments.items())
            raise LoweringError(f"{node.op}({types}): {error}") from error
        return results if isinstance(results, tuple) else (results,)

    def number(self, value: object) -> object:
        """Convert an operand. A constant promotes like a runtime scalar."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.builder.constant(value, "i64" if type(value) is int else "f64")
        return self.argument(value)

    def argument(self, value: object) -> object:
        """Convert an argument: references to values, dtypes to tokens, tuples to lists."""
        convert = _CONVERSIONS.get(type(value))
        return value if convert is None else convert(self, value)


def _origins(trace: Trace) -> list[Origin | None]:
    return [
        None if number is None else Origin(number, short_name(node.op))
        for node, number in zip(trace.nodes, trace.op_numbers(), strict=True)
    ]


def _set_origin(made: Iterable[Statement | Update | SequentialLoop], origin: Origin) -> None:
    """Set the operation that statements compute, also in the bodies of loops."""
    for item in made:
        if isinstance(item, SequentialLoop):
            _set_origin(item.body.body, origin)
        elif isinstance(item, Statement):
            item.origins = (origin,)


_OPERANDS = frozenset({"self", "other"})
"""Arguments that are tensors or scalars of the computation, never attributes."""

_CONVERSIONS: dict[type, Callable[..., object]] = {
    Ref: lambda lowering, ref: lowering.values[ref.index],
    ScalarRef: lambda lowering, ref: lowering.scalars[ref.index],
    DType: lambda lowering, dtype: dtype.token,
    tuple: lambda lowering, items: [lowering.argument(item) for item in items],
}


def _describe(value: object) -> str:
    if isinstance(value, StridedValue):
        return str(value.type)
    if isinstance(value, ScalarExpr):
        return f"{value.dtype} scalar"
    if isinstance(value, list):
        return "[" + ", ".join(map(_describe, value)) + "]"
    return repr(value)
