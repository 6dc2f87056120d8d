"""Resampling: each place of a dimension of the result combines a few known places of the operand.

Interpolation, adaptive averages and borders made of the data itself are all of this kind, one
dimension after the other, and so are their gradients, by the transposed table. Only the places
named are read, so that an infinity or a NaN spreads no further than PyTorch spreads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

__all__ = ["Taps", "pick", "resample", "resample_dims", "transposed"]

Taps = list[list[tuple[int, float]]]
"""For each place of the result: (place of the operand, weight), in the order of addition."""


def transposed(taps: Taps, size: int) -> Taps:
    """The gradient's table: for each of ``size`` places of the operand, the places of the result
    that read it."""
    made: Taps = [[] for _ in range(size)]
    for out, row in enumerate(taps):
        for place, weight in row:
            made[place].append((out, weight))
    return made


def pick(b: LinalgBuilder, x: StridedValue, places: Sequence[Sequence[int] | None]) -> StridedValue:
    """Element (i, j, ...) of the result is x[places[0][i], places[1][j], ...]; None keeps a
    dimension."""
    shape = tuple(n if p is None else len(p) for n, p in zip(x.shape, places, strict=True))
    if 0 in shape:
        return b.full(0, x.dtype, shape)
    source, rank = x, x.rank
    tables = [
        b.reshape(b.numbers(p, "i64"), (len(p), *[1] * (rank - 1 - k))).expand(shape)
        for k, p in enumerate(places)
        if p is not None
    ]

    def body(*chosen: ScalarExpr) -> ScalarExpr:
        rest = iter(chosen)
        return b.extract(
            source, [b.index(k) if p is None else next(rest) for k, p in enumerate(places)]
        )

    return b.pointwise(body, tables, TensorType(x.dtype, shape))


def resample(b: LinalgBuilder, x: StridedValue, dim: int, taps: Taps, dtype: str) -> StridedValue:
    """x with dimension ``dim`` combined by ``taps``, in ``dtype``."""
    most = max(map(len, taps), default=0)
    shape = (*x.shape[:dim], len(taps), *x.shape[dim + 1 :])
    if not most or not x.type.numel:
        return b.full(0, dtype, shape)
    even = all(len(row) == most for row in taps)
    places: list[int] = []
    weights: list[float] = []
    for row in taps:
        padded = row + [(-1, 0.0)] * (most - len(row))
        places += [place for place, _ in padded]
        weights += [weight for _, weight in padded]
    source, rank = x, x.rank
    table = [
        LoopInput(b.reshape(b.numbers(v, t), (len(taps), most)), [dim, rank])
        for v, t in ((places, "i64"), (weights, dtype))
    ]

    def body(place: ScalarExpr, weight: ScalarExpr, carried: ScalarExpr) -> ScalarExpr:
        inside = place if even else e.maximum(place, 0)
        value = b.extract(source, [inside if k == dim else b.index(k) for k in range(rank)]).to(
            dtype
        )
        total = carried + value * weight
        return total if even else e.where(place < 0, carried, total)

    (made,) = b.generic(
        (*shape, most), table, [LoopOutput(dtype, shape, range(rank), 0)], body, reduced=(rank,)
    )
    return made


def resample_dims(
    b: LinalgBuilder, x: StridedValue, tables: Sequence[Taps], dtype: str
) -> StridedValue:
    """The last dimensions of x combined by ``tables``, the innermost first."""
    for k in reversed(range(len(tables))):
        x = resample(b, x, x.rank - len(tables) + k, tables[k], dtype)
    return x
