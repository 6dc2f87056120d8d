"""Named linalg operations and padding, as functions of the builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ftm_backend import mlir
from ftm_backend.frontend.builder import Builder, Value

__all__ = ["contraction", "pad"]


def contraction(b: Builder, name: str, x: Value, y: Value, shape: Sequence[int], accumulator: str,
                attributes: dict[str, Any] | None = None) -> Value:
    """The named operation ``name`` on x and y, accumulating onto zeros.

    Returns:
        Value of ``shape`` and dtype ``accumulator``.
    """
    ir = mlir.ir
    zeros = b.tensor(b.full(0, accumulator, shape))
    op = ir.Operation.create(
        name,
        [b.tensor_type(accumulator, shape)],
        [b.tensor(x), b.tensor(y), zeros],
        {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]), **(attributes or {})},
        regions=1,
    )
    mlir.linalg.fill_builtin_region(op)
    return Value(op.results[0], shape, accumulator)


def pad(b: Builder, x: Value, low: Sequence[int], high: Sequence[int], fill: Any) -> Value:
    """``x`` with ``low`` and ``high`` elements of ``fill`` (number or Elem) around each dimension; a
    negative amount cuts off."""
    for dim, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            x = x.slice(dim, max(0, -before), x.shape[dim] - max(0, -before) - max(0, -after))
    low, high = [max(0, n) for n in low], [max(0, n) for n in high]
    if not any(low) and not any(high):
        return x
    shape = tuple(n + before + after for n, before, after in zip(x.shape, low, high, strict=True))
    if not x.type.numel:
        return b.full(fill, x.dtype, shape)
    ir = mlir.ir
    elem = b.inline(fill, x.dtype)
    op = ir.Operation.create(
        "tensor.pad",
        [b.tensor_type(x.dtype, shape)],
        [b.tensor(x)],
        {
            "static_low": ir.DenseI64ArrayAttr.get(low),
            "static_high": ir.DenseI64ArrayAttr.get(high),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
        },
        regions=1,
    )
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * x.rank)
    with ir.InsertionPoint(block):
        ir.Operation.create("tensor.yield", [], [elem.value])
    return Value(op.results[0], shape, x.dtype)
