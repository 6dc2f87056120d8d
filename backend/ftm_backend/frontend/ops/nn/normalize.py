"""Layer norm and group norm, forward and backward: a mean and a deviation for each group of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend.builder import Builder, Value
from ftm_backend.frontend.building.norms import moments, normalized, reciprocal_deviation
from ftm_backend.frontend.building.record import ROWS, lowering
from ftm_backend.frontend.building.recording import recorded
from ftm_backend.frontend.building.reduce import reduce
from ftm_backend.frontend.elements import Elem
from ftm_backend.frontend.trace import TensorType

recorded("aten::native_layer_norm aten::native_group_norm", tried=("mixed",), asks_cpu="halves", composite="whole")
recorded("aten::native_group_norm_backward", like=1)


def _normalized(b: Builder, x: Value, dims: list[int], weight: Value | None, bias: Value | None, eps: float) -> tuple[Value, ...]:
    """x normalized over ``dims``, in its own type, with the mean and 1 / deviation of each group.

    ``weight`` and ``bias`` broadcast against x, or are None.
    """
    dtype = compute_dtype(x.dtype)
    variance, mean = moments(b, x, dims, 0)
    deviation = reciprocal_deviation(b, variance, eps)

    body = normalized(dtype, x.dtype, weight is not None, bias is not None)
    affine = [p for p in (weight, bias) if p is not None]
    out = b.pointwise(body, [x, mean, deviation, *affine], TensorType(x.dtype, x.shape))
    statistics = (b.cast(b.reshape(s, t.shape), t.dtype) for s, t in zip((mean, deviation), (b.wanted(1), b.wanted(2)), strict=True))
    return (b.reshape(out, b.wanted(0).shape), *statistics)


def _normalized_backward(
    b: Builder, grad: Value, x: Value, mean: Value, rstd: Value, weight: Value | None, dims: list[int], shared: list[int]
) -> tuple[Value | None, ...]:
    """The gradients of x, weight and bias of `_normalized`; those that are not asked for are None.

    All operands broadcast against x.  ``shared`` are the dimensions along which an element of weight is used.
    """
    dtype = compute_dtype(x.dtype)
    scale = [] if weight is None else [weight]
    share = 1 / max(1, math.prod(x.shape[dim] for dim in dims))
    grads: list[Value | None] = [None, None, None]

    def scaled(g: Elem, w: Sequence[Elem]) -> Elem:
        return g.to(dtype) * w[0].to(dtype) if w else g.to(dtype)

    def normal(v: Elem, m: Elem, r: Elem) -> Elem:
        return (v.to(dtype) - m.to(dtype)) * r.to(dtype)

    if b.results[0] is not None:
        total = reduce(b, "sum", [grad, *scale], dims, dtype, lambda g, *w: scaled(g, w))
        along = reduce(b, "sum", [grad, x, mean, rstd, *scale], dims, dtype, lambda g, v, m, r, *w: scaled(g, w) * normal(v, m, r))

        def body(g: Elem, v: Elem, m: Elem, r: Elem, s: Elem, a: Elem, *w: Elem) -> Elem:
            inner = scaled(g, w) - s * share - normal(v, m, r) * a * share
            return (inner * r.to(dtype)).to(x.dtype)

        made = b.pointwise(body, [grad, x, mean, rstd, total, along, *scale], TensorType(x.dtype, x.shape))
        grads[0] = b.reshape(made, b.wanted(0).shape)
    if b.results[1] is not None:
        made = reduce(b, "sum", [grad, x, mean, rstd], shared, dtype, lambda g, v, m, r: g.to(dtype) * normal(v, m, r))
        grads[1] = b.cast(b.reshape(made, b.wanted(1).shape), b.wanted(1).dtype)
    if b.results[2] is not None:
        made = reduce(b, "sum", [grad], shared, dtype)
        grads[2] = b.cast(b.reshape(made, b.wanted(2).shape), b.wanted(2).dtype)
    return tuple(grads)


def _reshaped(b: Builder, parameter: Value | None, shape: tuple[int, ...]) -> Value | None:
    return None if parameter is None else b.reshape(parameter, shape)


def _rows(x: Value, normalized_shape: list[int]) -> tuple[int, int]:
    """The shape of x as [rows, columns] with the normalized dimensions as columns."""
    return math.prod(x.shape[: x.rank - len(normalized_shape)]), math.prod(normalized_shape)


@lowering("aten::native_layer_norm", FLOATS, "layer_norm", ROWS)
def _layer_norm(
    b: Builder, input: Value, normalized_shape: list[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, ...]:
    rows, columns = _rows(input, normalized_shape)
    weight, bias = _reshaped(b, weight, (1, columns)), _reshaped(b, bias, (1, columns))
    return _normalized(b, b.reshape(input, (rows, columns)), [1], weight, bias, eps)


@lowering("aten::native_layer_norm_backward", FLOATS, "layer_norm_backward", ROWS)
def _layer_norm_backward(
    b: Builder,
    grad_out: Value,
    input: Value,
    normalized_shape: list[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    rows, columns = _rows(input, normalized_shape)
    grad, x = (b.reshape(value, (rows, columns)) for value in (grad_out, input))
    mean, rstd = (b.reshape(value, (rows, 1)) for value in (mean, rstd))
    return _normalized_backward(b, grad, x, mean, rstd, _reshaped(b, weight, (1, columns)), [1], [0])


@lowering("aten::native_group_norm", FLOATS, "group_norm", ROWS)
def _group_norm(
    b: Builder, input: Value, weight: Value | None, bias: Value | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Value, ...]:
    weight, bias = _reshaped(b, weight, (1, group, C // group, 1)), _reshaped(b, bias, (1, group, C // group, 1))
    return _normalized(b, b.reshape(input, (N, group, C // group, HxW)), [2, 3], weight, bias, eps)


@lowering("aten::native_group_norm_backward", FLOATS, "group_norm_backward", ROWS)
def _group_norm_backward(
    b: Builder,
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    grad, x = (b.reshape(value, (N, group, C // group, HxW)) for value in (grad_out, input))
    mean, rstd = (b.reshape(value, (N, group, 1, 1)) for value in (mean, rstd))
    return _normalized_backward(b, grad, x, mean, rstd, _reshaped(b, weight, (1, group, C // group, 1)), [2, 3], [0, 3])
