"""Trace -> linalg: each op is lowered by its record.

The result is a function on dense tensors and runtime numbers (f64, i64); it remembers the types
that inputs and outputs have in memory, since a ``u8`` tensor is ``i8`` from here on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftm_backend.dtypes import memory
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoweringError, StridedValue
from ftm_backend.frontend.oplib.op_record import RECORDS
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.function import LinalgFunction
from ftm_backend.ir.trace.trace import DType, Node, Ref, ScalarRef, Trace

__all__ = ["LoweringError", "TraceLowering", "lower"]

_MEANINGLESS = frozenset({"device", "layout", "pin_memory", "generator", "non_blocking"})


def lower(trace: Trace) -> LinalgFunction:
    """Lowers a verified trace.

    Raises:
        LoweringError: for an op without a record, or arguments that its record does not take.
    """
    from ftm_backend.frontend import complex, ops  # noqa: F401  (registers the records)

    trace, _ = complex.as_pairs(trace)
    return TraceLowering(trace).run()


class TraceLowering:
    """State of one lowering: what each value of the trace has become."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.builder = LinalgBuilder()
        self.values: list[StridedValue | None] = [
            self.builder.input(type_) for type_ in trace.params
        ]
        self.scalars = [self.builder.scalar(dtype) for dtype in trace.scalars]

    def run(self) -> LinalgFunction:
        for node in self.trace.nodes:
            self.node(node)
        function = self.builder.function
        for number in self.trace.results:
            value = self.values[number]
            assert value is not None, "a trace does not return undefined tensors"
            function.results.append(self.builder.tensor(value))
            function.output_types.append(memory(value.dtype))
        return function

    def node(self, node: Node) -> None:
        """Lowers one, and holds its results against their types."""
        for value, expected in zip(self.lowered(node), node.results, strict=True):
            if expected is not None and (value is None or value.type != expected):
                found = "nothing" if value is None else value.type
                raise LoweringError(
                    f"{node.op}: the trace says the result is {expected}, its lowering gives {found}"
                )
            self.values.append(value)

    def lowered(self, node: Node) -> tuple[StridedValue | None, ...]:
        """What the record makes of a node; the node's types say what is asked for."""
        record = RECORDS.get(node.op)
        if record is None:
            raise LoweringError(
                f"{node.op} has no op record, so it cannot be compiled; add one to frontend/ops"
            )
        arguments = {
            "from_" if name == "from" else name: self.number(value)
            if name in _OPERANDS
            else self.argument(value)
            for name, value in node.args
            if name not in _MEANINGLESS
        }
        self.builder.results = node.results
        try:
            made = record.lower(self.builder, **arguments)
        except (LoweringError, TypeError, KeyError) as error:
            types = ", ".join(f"{k}={_describe(v)}" for k, v in arguments.items())
            raise LoweringError(f"{node.op}({types}): {error}") from error
        return made if isinstance(made, tuple) else (made,)

    def number(self, value: Any) -> Any:
        """An operand; a number that the trace holds takes part in promotion as one that comes at
        run time does."""
        if type(value) in (int, float):
            return self.builder.constant(value, "i64" if type(value) is int else "f64")
        return self.argument(value)

    def argument(self, value: object) -> Any:
        convert = _CONVERSIONS.get(type(value))
        return value if convert is None else convert(self, value)


_OPERANDS = frozenset({"self", "other"})
"""Arguments that are tensors or numbers to compute with, never attributes."""

_CONVERSIONS: dict[type, Callable[[TraceLowering, Any], Any]] = {
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
