"""Append linalg's named operations, and padding."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.dtypes import info
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.scalar_math import Number
from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.named_ops import named_statement
from ftm_backend.ir.linalg.strided_view import Strided


def contraction(
    b: LinalgBuilder,
    name: str,
    x: StridedValue,
    y: StridedValue,
    shape: Sequence[int],
    accumulator: str,
    attributes: dict[str, tuple[int, ...]] | None = None,
) -> StridedValue:
    """Append the named contraction `name` of `x` and `y`, accumulating onto zeros.

    Args:
        b: The builder.
        name: A linalg op, such as ``linalg.matmul``.
        x: First operand.
        y: Second operand.
        shape: The result's shape.
        accumulator: Dtype of the accumulator and of the result.
        attributes: The op's attributes, such as strides.

    Returns:
        The result, of `shape` and dtype `accumulator`.
    """
    result = function.Value(info(accumulator).builtin, tuple(shape))
    start = b.constant(0, accumulator).node
    b.function.body.append(
        named_statement(name, (b.tensor(x), b.tensor(y)), result, start, attributes or {})
    )
    return StridedValue(result, accumulator)


def pad(
    b: LinalgBuilder, x: StridedValue, low: Sequence[int], high: Sequence[int], fill: Number
) -> StridedValue:
    """Pad each dimension of `x` with `fill`.

    Args:
        b: The builder.
        x: The tensor.
        low: Elements to add before each dimension; a negative amount crops.
        high: Elements to add after each dimension; a negative amount crops.
        fill: A ScalarExpr or a Python number.
    """
    for dim, (before, after) in enumerate(zip(low, high, strict=True)):
        if before < 0 or after < 0:
            x = x.slice(dim, max(0, -before), x.shape[dim] - max(0, -before) - max(0, -after))
    low, high = [max(0, n) for n in low], [max(0, n) for n in high]
    if not any(low) and not any(high):
        return x
    shape = tuple(n + before + after for n, before, after in zip(x.shape, low, high, strict=True))
    strides = row_major(shape)
    offset = sum(before * stride for before, stride in zip(low, strides, strict=True))
    return b.update(b.full(fill, x.dtype, shape), x, Strided(x.shape, strides, offset))
