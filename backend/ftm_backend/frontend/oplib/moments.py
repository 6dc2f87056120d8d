"""Moments and norms over dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.reductions import count_of, mean_of, reduce
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

__all__ = ["moments", "normalized", "reciprocal_deviation", "vector_norm"]


def moments(
    b: LinalgBuilder, x: StridedValue, dims: Sequence[int], correction: Number
) -> tuple[StridedValue, StridedValue]:
    """(variance, mean) over ``dims`` in x's compute dtype, extents 1 kept, in two passes;
    ``correction`` is a number or a runtime scalar."""
    dtype = compute_dtype(x.dtype)
    mean = mean_of(b, x, dims, dtype)
    squares = reduce(
        b, "sum", [x, mean], dims, dtype, lambda v, m: (v.to(dtype) - m) * (v.to(dtype) - m)
    )
    count = b.constant(count_of(x.shape, dims), dtype) - b.inline(correction, dtype)
    count = e.maximum(count, 0)
    return b.pointwise(lambda s: s / count, [squares], TensorType(dtype, squares.shape)), mean


def vector_norm(
    b: LinalgBuilder, x: StridedValue, p: Number, dims: Sequence[int], dtype: str
) -> StridedValue:
    """The p-norm over ``dims``, computed and returned in ``dtype``, extents 1 kept; ``p`` as a
    constant gets the code of its own, as a runtime scalar the general one."""
    if isinstance(p, e.ScalarExpr):
        return _general_norm(b, x, p, dims, dtype)
    if p == 2:
        squares = reduce(b, "sum", [x], dims, dtype, lambda v: v.to(dtype) * v.to(dtype))
        return b.pointwise(e.sqrt, [squares], squares.type)
    if p == 0:
        return reduce(b, "sum", [x], dims, dtype, lambda v: v.to(dtype).ne(0))
    if math.isinf(p):
        extreme = reduce(b, "max" if p > 0 else "min", [x], dims, dtype, lambda v: abs(v.to(dtype)))
        # The largest magnitude of nothing is 0.
        return b.pointwise(lambda s: e.maximum(s, 0), [extreme], extreme.type) if p > 0 else extreme
    if p == 1:
        return reduce(b, "sum", [x], dims, dtype, lambda v: abs(v.to(dtype)))
    total = reduce(
        b, "sum", [x], dims, dtype, lambda v: e.pow_(abs(v.to(dtype)), b.constant(p, dtype))
    )
    return b.pointwise(lambda s: e.pow_(s, b.constant(1 / p, dtype)), [total], total.type)


def _general_norm(
    b: LinalgBuilder, x: StridedValue, order: ScalarExpr, dims: Sequence[int], dtype: str
) -> StridedValue:
    p = order.to(dtype)

    def element(v: ScalarExpr) -> ScalarExpr:
        magnitude = abs(v.to(dtype))
        return e.where(p.eq(0), v.to(dtype).ne(0).to(dtype), e.pow_(magnitude, p))

    total = reduce(b, "sum", [x], dims, dtype, element)
    largest = reduce(b, "max", [x], dims, dtype, lambda v: abs(v.to(dtype)))
    smallest = reduce(b, "min", [x], dims, dtype, lambda v: abs(v.to(dtype)))

    def finish(s: ScalarExpr, high: ScalarExpr, low: ScalarExpr) -> ScalarExpr:
        finite = e.where(p.eq(0), s, e.pow_(s, p.const(1) / p))
        return e.where(p.eq(math.inf), e.maximum(high, 0), e.where(p.eq(-math.inf), low, finite))

    return b.pointwise(finish, [total, largest, smallest], total.type)


def reciprocal_deviation(b: LinalgBuilder, variance: StridedValue, eps: float) -> StridedValue:
    """1 / sqrt(variance + eps)."""
    return b.pointwise(lambda v: e.rsqrt(v + eps), [variance], variance.type)


def normalized(compute: str, dtype: str, scales: bool, shifts: bool) -> Callable[..., ScalarExpr]:
    """The body (value, mean, 1 / deviation, parameters...) of what is normalized in ``compute`` and
    returned in ``dtype``; the parameters are a weight, if it ``scales``, and a bias, if it
    ``shifts``."""

    def body(v: ScalarExpr, m: ScalarExpr, r: ScalarExpr, *parameters: ScalarExpr) -> ScalarExpr:
        y = (v.to(compute) - m) * r
        values = [p.to(compute) for p in parameters]
        if scales:
            y = y * values[0]
        if shifts:
            y = y + values[-1]
        return y.to(dtype)

    return body
