"""Lowerings of variances, means and norms over dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.reductions import mean_of, reduce, reduced_count
from ftm_backend.frontend.scalar_math import Number, ScalarExpr


def variance_and_mean(
    b: LinalgBuilder,
    x: StridedValue,
    dims: Sequence[int],
    correction: Number,
    dtype: str | None = None,
) -> tuple[StridedValue, StridedValue]:
    """Return variance and mean over `dims` in two passes, with extents 1.

    Args:
        b: The builder.
        x: The tensor.
        dims: The dimensions to reduce.
        correction: Subtracted from the count; a number or a runtime scalar.
        dtype: Of the computation and the results; x's compute dtype by default.
    """
    dtype = dtype or compute_dtype(x.dtype)
    mean = mean_of(b, x, dims, dtype)
    squares = reduce(
        b, "sum", [x, mean], dims, dtype, lambda v, m: (v.to(dtype) - m) * (v.to(dtype) - m)
    )
    count = b.constant(reduced_count(x.shape, dims), dtype) - b.scalar_operand(correction, dtype)
    count = e.maximum(count, 0)
    return b.pointwise(lambda s: s / count, [squares]), mean


def vector_norm(
    b: LinalgBuilder, x: StridedValue, p: Number, dims: Sequence[int], dtype: str
) -> StridedValue:
    """Return the p-norm over `dims` in `dtype`, with extents 1.

    A constant `p` gets specialized code; a runtime scalar selects at run time.
    """
    if isinstance(p, e.ScalarExpr):
        return _general_norm(b, x, p, dims, dtype)
    if p == 2:
        squares = reduce(b, "sum", [x], dims, dtype, lambda v: v.to(dtype) * v.to(dtype))
        return b.pointwise(e.sqrt, [squares])
    if p == 0:
        return reduce(b, "sum", [x], dims, dtype, lambda v: v.to(dtype).ne(0))
    if math.isinf(p):
        extreme = reduce(b, "max" if p > 0 else "min", [x], dims, dtype, lambda v: abs(v.to(dtype)))
        # the largest magnitude of an empty set is 0
        return b.pointwise(lambda s: e.maximum(s, 0), [extreme]) if p > 0 else extreme
    if p == 1:
        return reduce(b, "sum", [x], dims, dtype, lambda v: abs(v.to(dtype)))
    total = reduce(
        b, "sum", [x], dims, dtype, lambda v: e.pow_(abs(v.to(dtype)), b.constant(p, dtype))
    )
    return b.pointwise(lambda s: e.pow_(s, b.constant(1 / p, dtype)), [total])


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

    return b.pointwise(finish, [total, largest, smallest])


def inverse_std(b: LinalgBuilder, variance: StridedValue, eps: float) -> StridedValue:
    """Return ``1 / sqrt(variance + eps)``."""
    return b.pointwise(lambda v: e.rsqrt(v + eps), [variance])


def normalization_body(
    compute: str, dtype: str, scales: bool, shifts: bool
) -> Callable[..., ScalarExpr]:
    """Return the body of a normalization.

    Args:
        compute: The dtype of the arithmetic.
        dtype: The result's dtype.
        scales: Multiply by a weight.
        shifts: Add a bias.

    Returns:
        A function of value, mean, 1 / deviation, and the weight and bias if present.
    """

    def body(v: ScalarExpr, m: ScalarExpr, r: ScalarExpr, *parameters: ScalarExpr) -> ScalarExpr:
        y = (v.to(compute) - m) * r
        values = [p.to(compute) for p in parameters]
        if scales:
            y = y * values[0]
        if shifts:
            y = y + values[-1]
        return y.to(dtype)

    return body
