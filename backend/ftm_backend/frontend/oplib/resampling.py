"""Lowerings of resampling: each output position combines a few fixed input positions.

Interpolation, adaptive average pooling and reflection or replication padding resample one dimension
after the other. Their gradients use the transposed table. Only the listed positions are read, so
infinities and NaN spread no further than in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

Taps = list[list[tuple[int, float]]]
"""By output position: the (input position, weight) pairs, in the order of addition."""


def transpose_taps(taps: Taps, size: int) -> Taps:
    """Return the table of the gradient: by input position, the outputs that read it.

    Args:
        taps: The forward table.
        size: Number of input positions.
    """
    table: Taps = [[] for _ in range(size)]
    for out, row in enumerate(taps):
        for position, weight in row:
            table[position].append((out, weight))
    return table


def gather_grid(
    b: LinalgBuilder, x: StridedValue, positions: Sequence[Sequence[int] | None]
) -> StridedValue:
    """Gather a grid: element (i, j, ...) is ``x[positions[0][i], ...]``.

    None in `positions` keeps a dimension.
    """
    shape = tuple(n if p is None else len(p) for n, p in zip(x.shape, positions, strict=True))
    if 0 in shape:
        return b.full(0, x.dtype, shape)
    source, rank = x, x.rank
    tables = [
        b.reshape(b.constant_vector(p, "i64"), (len(p), *[1] * (rank - 1 - k))).expand(shape)
        for k, p in enumerate(positions)
        if p is not None
    ]

    def body(*chosen: ScalarExpr) -> ScalarExpr:
        rest = iter(chosen)
        return b.extract(
            source, [b.index(k) if p is None else next(rest) for k, p in enumerate(positions)]
        )

    return b.pointwise(body, tables, TensorType(x.dtype, shape))


def resample(b: LinalgBuilder, x: StridedValue, dim: int, taps: Taps, dtype: str) -> StridedValue:
    """Combine dimension `dim` of `x` by `taps`, in `dtype`."""
    max_taps = max(map(len, taps), default=0)
    shape = (*x.shape[:dim], len(taps), *x.shape[dim + 1 :])
    if not max_taps or not x.type.numel:
        return b.full(0, dtype, shape)
    is_rectangular = all(len(row) == max_taps for row in taps)
    positions: list[int] = []
    weights: list[float] = []
    for row in taps:
        padded = row + [(-1, 0.0)] * (max_taps - len(row))
        positions += [position for position, _ in padded]
        weights += [weight for _, weight in padded]
    source, rank = x, x.rank
    table = [
        LoopInput(b.reshape(b.constant_vector(v, t), (len(taps), max_taps)), [dim, rank])
        for v, t in ((positions, "i64"), (weights, dtype))
    ]

    def body(position: ScalarExpr, weight: ScalarExpr, carried: ScalarExpr) -> ScalarExpr:
        inside = position if is_rectangular else e.maximum(position, 0)
        value = b.extract(source, [inside if k == dim else b.index(k) for k in range(rank)]).to(
            dtype
        )
        total = carried + value * weight
        return total if is_rectangular else e.where(position < 0, carried, total)

    (result,) = b.generic(
        (*shape, max_taps), table, [LoopOutput(dtype, shape, range(rank), 0)], body, reduced=(rank,)
    )
    return result


def resample_dims(
    b: LinalgBuilder, x: StridedValue, tables: Sequence[Taps], dtype: str
) -> StridedValue:
    """Combine the last dimensions of `x` by one table each, innermost first."""
    for k in reversed(range(len(tables))):
        x = resample(b, x, x.rank - len(tables) + k, tables[k], dtype)
    return x
