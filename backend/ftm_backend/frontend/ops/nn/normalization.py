"""Op records of layer norm and group norm, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.moments import inverse_std, normalization_body, variance_and_mean
from ftm_backend.frontend.oplib.op_registry import ROWS, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded(
    "aten::native_layer_norm aten::native_group_norm",
    tried=("mixed",),
    asks_cpu="halves",
    composite="whole",
)
recorded("aten::native_group_norm_backward", like=1)


def _normalized(
    b: LinalgBuilder,
    x: StridedValue,
    dims: list[int],
    weight: StridedValue | None,
    bias: StridedValue | None,
    eps: float,
) -> tuple[StridedValue, ...]:
    """Normalize x over `dims` in its dtype.

    `weight` and `bias` broadcast to x, or are None.

    Returns:
        The result, and mean and 1 / deviation of each group.
    """
    dtype = compute_dtype(x.dtype)
    variance, mean = variance_and_mean(b, x, dims, 0)
    deviation = inverse_std(b, variance, eps)

    body = normalization_body(dtype, x.dtype, weight is not None, bias is not None)
    affine = [p for p in (weight, bias) if p is not None]
    out = b.pointwise(body, [x, mean, deviation, *affine])
    statistics = (
        b.as_type(s, t)
        for s, t in zip((mean, deviation), (b.result_type(1), b.result_type(2)), strict=True)
    )
    return (b.reshape(out, b.result_type(0).shape), *statistics)


def _normalized_backward(
    b: LinalgBuilder,
    grad: StridedValue,
    x: StridedValue,
    mean: StridedValue,
    rstd: StridedValue,
    weight: StridedValue | None,
    dims: list[int],
    shared: list[int],
) -> tuple[StridedValue | None, ...]:
    """Return the gradients of x, weight and bias of `_normalized`; None if not requested.

    All operands broadcast to x. An element of weight is shared along the dimensions `shared`.
    """
    dtype = compute_dtype(x.dtype)
    scale = [] if weight is None else [weight]
    inverse_count = 1 / max(1, math.prod(x.shape[dim] for dim in dims))
    grads: list[StridedValue | None] = [None, None, None]

    def scaled(g: ScalarExpr, w: Sequence[ScalarExpr]) -> ScalarExpr:
        return g.to(dtype) * w[0].to(dtype) if w else g.to(dtype)

    def x_hat(v: ScalarExpr, m: ScalarExpr, r: ScalarExpr) -> ScalarExpr:
        return (v.to(dtype) - m.to(dtype)) * r.to(dtype)

    if b.results[0] is not None:
        sum_dy = reduce(b, "sum", [grad, *scale], dims, dtype, lambda g, *w: scaled(g, w))
        sum_dy_xhat = reduce(
            b,
            "sum",
            [grad, x, mean, rstd, *scale],
            dims,
            dtype,
            lambda g, v, m, r, *w: scaled(g, w) * x_hat(v, m, r),
        )

        def body(
            g: ScalarExpr,
            v: ScalarExpr,
            m: ScalarExpr,
            r: ScalarExpr,
            s: ScalarExpr,
            a: ScalarExpr,
            *w: ScalarExpr,
        ) -> ScalarExpr:
            inner = scaled(g, w) - s * inverse_count - x_hat(v, m, r) * a * inverse_count
            return (inner * r.to(dtype)).to(x.dtype)

        result = b.pointwise(
            body, [grad, x, mean, rstd, sum_dy, sum_dy_xhat, *scale], TensorType(x.dtype, x.shape)
        )
        grads[0] = b.reshape(result, b.result_type(0).shape)
    if b.results[1] is not None:
        result = reduce(
            b,
            "sum",
            [grad, x, mean, rstd],
            shared,
            dtype,
            lambda g, v, m, r: g.to(dtype) * x_hat(v, m, r),
        )
        grads[1] = b.as_type(result, b.result_type(1))
    if b.results[2] is not None:
        result = reduce(b, "sum", [grad], shared, dtype)
        grads[2] = b.as_type(result, b.result_type(2))
    return tuple(grads)


def _reshaped(
    b: LinalgBuilder, parameter: StridedValue | None, shape: tuple[int, ...]
) -> StridedValue | None:
    return None if parameter is None else b.reshape(parameter, shape)


def _rows(x: StridedValue, normalized_shape: list[int]) -> tuple[int, int]:
    """Return the shape [rows, columns] with the normalized dimensions as columns."""
    return math.prod(x.shape[: x.rank - len(normalized_shape)]), math.prod(normalized_shape)


@lowering("aten::native_layer_norm", FLOATS, "layer_norm", ROWS)
def _layer_norm(
    b: LinalgBuilder,
    input: StridedValue,
    normalized_shape: list[int],
    weight: StridedValue | None,
    bias: StridedValue | None,
    eps: float,
) -> tuple[StridedValue, ...]:
    rows, columns = _rows(input, normalized_shape)
    weight, bias = _reshaped(b, weight, (1, columns)), _reshaped(b, bias, (1, columns))
    return _normalized(b, b.reshape(input, (rows, columns)), [1], weight, bias, eps)


@lowering("aten::native_layer_norm_backward", FLOATS, "layer_norm_backward", ROWS)
def _layer_norm_backward(
    b: LinalgBuilder,
    grad_out: StridedValue,
    input: StridedValue,
    normalized_shape: list[int],
    mean: StridedValue,
    rstd: StridedValue,
    weight: StridedValue | None,
    bias: StridedValue | None,
) -> tuple[StridedValue | None, ...]:
    rows, columns = _rows(input, normalized_shape)
    grad, x = (b.reshape(value, (rows, columns)) for value in (grad_out, input))
    mean, rstd = (b.reshape(value, (rows, 1)) for value in (mean, rstd))
    return _normalized_backward(
        b, grad, x, mean, rstd, _reshaped(b, weight, (1, columns)), [1], [0]
    )


@lowering("aten::native_group_norm", FLOATS, "group_norm", ROWS)
def _group_norm(
    b: LinalgBuilder,
    input: StridedValue,
    weight: StridedValue | None,
    bias: StridedValue | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[StridedValue, ...]:
    weight, bias = (
        _reshaped(b, weight, (1, group, C // group, 1)),
        _reshaped(b, bias, (1, group, C // group, 1)),
    )
    return _normalized(b, b.reshape(input, (N, group, C // group, HxW)), [2, 3], weight, bias, eps)


@lowering("aten::native_group_norm_backward", FLOATS, "group_norm_backward", ROWS)
def _group_norm_backward(
    b: LinalgBuilder,
    grad_out: StridedValue,
    input: StridedValue,
    mean: StridedValue,
    rstd: StridedValue,
    weight: StridedValue | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
) -> tuple[StridedValue | None, ...]:
    grad, x = (b.reshape(value, (N, group, C // group, HxW)) for value in (grad_out, input))
    mean, rstd = (b.reshape(value, (N, group, 1, 1)) for value in (mean, rstd))
    return _normalized_backward(
        b, grad, x, mean, rstd, _reshaped(b, weight, (1, group, C // group, 1)), [2, 3], [0, 3]
    )
