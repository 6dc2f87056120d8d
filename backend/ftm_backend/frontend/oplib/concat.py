"""Lowerings of concatenation and reversal."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_view import Strided


def concat(b: LinalgBuilder, parts: Sequence[StridedValue], dim: int) -> StridedValue:
    """Concatenate tensors of one dtype along `dim`."""
    shape = (
        *parts[0].shape[:dim],
        sum(part.shape[dim] for part in parts),
        *parts[0].shape[dim + 1 :],
    )
    return concat_into(b, parts, dim, shape, parts[0].dtype)


def concat_into(
    b: LinalgBuilder, parts: Sequence[StridedValue], dim: int, shape: tuple[int, ...], dtype: str
) -> StridedValue:
    """Concatenate tensors along `dim` into a larger tensor; its other elements are undefined."""
    strides, start, slices = row_major(shape), 0, []
    for part in parts:
        slices.append((part, Strided(part.shape, strides, start * strides[dim])))
        start += part.shape[dim]
    return b.insert_slices(b.empty(dtype, shape), slices)


def flip(b: LinalgBuilder, x: StridedValue, dims: Sequence[int]) -> StridedValue:
    """Reverse the order of elements along some dimensions."""
    reversed_dims = {d % max(1, x.rank) for d in dims}
    index = [
        b.dim(k) * -1 + (n - 1) if k in reversed_dims and n > 1 else k
        for k, n in enumerate(x.shape)
    ]
    output = LoopOutput(x.dtype, x.shape, range(x.rank))
    return b.generic(x.shape, [LoopInput(x, index)], [output], lambda v: v)[0]
