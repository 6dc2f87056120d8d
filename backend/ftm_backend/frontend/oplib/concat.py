"""Parts side by side in one tensor, and tensors read from their ends."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_layout import Strided

__all__ = ["flipped", "joined", "placed"]


def joined(b: LinalgBuilder, parts: Sequence[StridedValue], dim: int) -> StridedValue:
    """``parts`` of one dtype, one after the other along ``dim``."""
    shape = (
        *parts[0].shape[:dim],
        sum(part.shape[dim] for part in parts),
        *parts[0].shape[dim + 1 :],
    )
    return placed(b, parts, dim, shape, parts[0].dtype)


def placed(
    b: LinalgBuilder, parts: Sequence[StridedValue], dim: int, shape: tuple[int, ...], dtype: str
) -> StridedValue:
    """The same into a tensor of ``shape`` and ``dtype``."""
    strides, start, places = row_major(shape), 0, []
    for part in parts:
        places.append((part, Strided(part.shape, strides, start * strides[dim])))
        start += part.shape[dim]
    return b.placed(b.empty(dtype, shape), places)


def flipped(b: LinalgBuilder, x: StridedValue, dims: Sequence[int]) -> StridedValue:
    """``x`` with the elements of some dimensions in reverse order."""
    turned = {d % max(1, x.rank) for d in dims}
    index = [b.dim(k) * -1 + (n - 1) if k in turned and n > 1 else k for k, n in enumerate(x.shape)]
    output = LoopOutput(x.dtype, x.shape, range(x.rank))
    return b.generic(x.shape, [LoopInput(x, index)], [output], lambda v: v)[0]
