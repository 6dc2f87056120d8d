"""Analysis: which kernels may fault.

They have a computed index that is not proved to be in bounds, or communicate with other processes.

A kernel that ran without a fault has checked its indices. A later kernel that uses the same indices
with the same bounds (an embedding's gradient after the embedding) cannot fault.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ftm_backend.ir.linalg.affine import Affine, volume
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    Node,
    Operand,
    Statement,
    Value,
    has_effect,
    walk,
)
from ftm_backend.midend.analysis.integer_ranges import Range, Ranges, type_range_of
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.symbolic import guarded_equal, may_exceed_one, size_hint

_DEEPEST = 8
"""Most statements through which an index is followed."""

Dims = tuple[tuple[int, int], ...]
"""Stride and extent of each dimension of an access, in order of increasing stride."""

Inputs = Collection[Value]
"""The values that a kernel loads from memory."""


@dataclass(frozen=True)
class _Checked:
    """Elements of a tensor, and their proved range."""

    first: int
    dims: Dims
    bounds: Range

    def covers(self, first: int, dims: Dims) -> bool:
        """Whether an access reads only these elements."""
        if (first, dims) == (self.first, self.dims):
            return True
        if self.dims and (len(self.dims) > 1 or self.dims[0][0] != 1):
            return False
        return self.first <= first and first + _reach(dims) <= self.first + _reach(self.dims)


@dataclass(frozen=True)
class _ComputedIndex:
    """A computed index: ``node``, over the loops of ``statement``, must lie in [0, size)."""

    statement: Statement
    node: Node
    size: int


@dataclass
class FaultAnalysis:
    """Visits kernels in program order."""

    _checked: dict[Value, list[_Checked]] = field(default_factory=dict)
    _made: dict[Value, tuple[FunctionResult, Inputs]] = field(default_factory=dict)

    def visit(self, kernel: Kernel) -> bool:
        """Return whether the kernel may fault. Later visits may assume that it did not."""
        inputs = set(kernel.inputs)
        for value, result in zip(kernel.outputs, kernel.made, strict=True):
            if result is not None and value.dtype.startswith("i"):
                self._made[value] = (result, inputs)
        indices = [p for s in kernel.statements for p in _computed_indices(s)]
        unproved = [p for p in indices if not self._proved(p, inputs)]
        communicates = any(map(has_effect, kernel.statements))
        for computed_index in unproved:
            self._record_bounds(computed_index, inputs)
        return communicates or bool(unproved)

    def _proved(self, computed_index: _ComputedIndex, inputs: Inputs) -> bool:
        low, high = self._ranges(computed_index.statement, inputs).of(computed_index.node)
        return low >= 0 and high < computed_index.size

    def _record_bounds(self, computed_index: _ComputedIndex, inputs: Inputs) -> None:
        loops = computed_index.statement.loops
        for node, bounds in (
            self._ranges(computed_index.statement, inputs)
            .demand(computed_index.node, 0, computed_index.size - 1)
            .values()
        ):
            operand: Operand = node.payload
            if operand.value in inputs:
                first, dims = _elements(operand.index, loops)
                self._checked.setdefault(operand.value, []).append(_Checked(first, dims, bounds))

    # --- ranges

    def _ranges(self, statement: Statement, inputs: Inputs, depth: int = 0) -> Ranges:
        return Ranges(
            statement.loops, lambda operand: self._element(operand, statement.loops, inputs, depth)
        )

    def _element(self, operand: Operand, loops: Sequence[int], inputs: Inputs, depth: int) -> Range:
        """Return the range of the elements that an operand reads."""
        value = operand.value
        value_range = type_range_of(value.dtype)
        if depth == _DEEPEST:
            return value_range
        if value not in inputs:
            return (
                _meet(value_range, self._result(value.producer.result_of(value), inputs, depth))
                if isinstance(value.producer, Statement)
                else value_range
            )
        if value in self._made:
            result, outer = self._made[value]
            value_range = _meet(value_range, self._result(result, outer, depth))
        first, dims = (
            _elements(operand.index, loops)
            if operand.index.coeffs
            else (0, ((1, volume(value.shape)),))
        )
        for checked in self._checked.get(value, ()):
            if checked.covers(first, dims):
                value_range = _meet(value_range, checked.bounds)
        return value_range

    def _result(self, result: FunctionResult, inputs: Inputs, depth: int) -> Range:
        """Return the range of a statement's result."""
        statement = result.value.producer
        assert isinstance(statement, Statement)
        anything = type_range_of(result.value.dtype)
        if not statement.op.startswith("linalg.") or 0 in statement.loops:
            return anything
        ranges = self._ranges(statement, inputs, depth + 1)
        if result.combine is None:
            return ranges.of(result.yields)
        if result.combine not in ("min", "max") or not isinstance(result.init, Node):
            return anything
        value_range, start = ranges.of(result.yields), ranges.of(result.init)
        choose = min if result.combine == "min" else max
        return choose(value_range[0], start[0]), choose(value_range[1], start[1])


def _computed_indices(statement: Statement) -> list[_ComputedIndex]:
    """Return the computed indices of a statement; none if its loops are empty."""
    if statement.op == "ftm.scatter":
        dest, indices, _ = (t.view.sizes for t in statement.tensors)
        if not volume(dest) or not volume(indices):
            return []
        over = Statement(statement.op, indices, (False,), [], [])
        return [
            _ComputedIndex(
                over,
                Node("in", statement.operands[1].value.dtype, payload=statement.operands[1]),
                dest[0],
            )
        ]
    if not statement.gathers or 0 in statement.loops:
        return []
    return [
        _ComputedIndex(statement, n.operands[0], volume(n.payload.shape))
        for n in walk(r.yields for r in statement.results)
        if n.op == "gather"
    ]


def _elements(index: Affine, loops: Sequence[int]) -> tuple[int, Dims]:
    """Return the elements that an access reads, independent of the order of its loops."""
    first = index.const
    dims: list[tuple[int, int]] = []
    for stride, extent in sorted(
        zip(index.coeffs, loops, strict=True), key=lambda pair: abs(size_hint(pair[0]))
    ):
        if not stride or not (may_exceed_one(extent) or extent == 0):
            continue
        if stride < 0:
            first += stride * (extent - 1)
            stride = -stride
        if dims and guarded_equal(stride, dims[-1][0] * dims[-1][1]):
            dims[-1] = (dims[-1][0], dims[-1][1] * extent)
        else:
            dims.append((stride, extent))
    return first, tuple(dims)


def _reach(dims: Dims) -> int:
    """Return the number of elements between the first and the last that are read, minus one."""
    return sum((extent - 1) * stride for stride, extent in dims)


def _meet(a: Range, b: Range) -> Range:
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a
