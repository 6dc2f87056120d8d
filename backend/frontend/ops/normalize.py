"""Softmax, layer norm, group norm, batch norm, forward and backward: the natural sequence over rows."""

from __future__ import annotations

import math
from typing import Any

from ftm_backend.frontend import elements as e
from ftm_backend.frontend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend.ops.record import lowering
from ftm_backend.frontend.ops.reduce import reduce
from ftm_backend.frontend.ops.reduction import moments
from ftm_backend.frontend.trace import TensorType

_ROWS = {"f64": (1e-10, 1e-11), "f32": (5e-5, 1e-5), "f16": (4e-3, 1e-3), "bf16": (3e-2, 1e-2)}


def _typed(b: Any, dtype: str, shape: Any) -> Any:
    return TensorType(dtype, tuple(shape))


# --- softmax ----------------------------------------------------------------------------------------------


def _shifted(b: Any, x: Any, dim: int) -> tuple[Any, Any, str]:
    """(maximum along dim, sum of exp(x - maximum), compute dtype)."""
    dtype = compute_dtype(b.result.dtype)
    largest = reduce(b, "max", [x], [dim], dtype)
    total = reduce(b, "sum", [x, largest], [dim], dtype, lambda v, m: e.exp(v.to(dtype) - m))
    return largest, total, dtype


@lowering("aten::_softmax", FLOATS, "softmax", _ROWS)
def _softmax(b: Any, self: Any, dim: int, half_to_float: bool) -> Any:
    if not self.rank:
        return b.pointwise(lambda x: x - x + 1, [self], b.result)
    largest, total, dtype = _shifted(b, self, dim % self.rank)
    return b.pointwise(lambda x, m, s: (e.exp(x.to(dtype) - m) / s).to(b.result.dtype), [self, largest, total], b.result)


@lowering("aten::_safe_softmax", FLOATS, "safe_softmax", _ROWS)
def _safe_softmax(b: Any, self: Any, dim: int, dtype: str | None = None) -> Any:
    """Softmax in which a row of -inf gives zeros."""
    largest, total, compute = _shifted(b, self, dim % self.rank)

    def body(x: Any, m: Any, s: Any) -> Any:
        return e.where(m.eq(-math.inf), 0, e.exp(x.to(compute) - m) / s).to(b.result.dtype)

    return b.pointwise(body, [self, largest, total], b.result)


@lowering("aten::_log_softmax", FLOATS, "softmax", _ROWS)
def _log_softmax(b: Any, self: Any, dim: int, half_to_float: bool) -> Any:
    if not self.rank:
        return b.pointwise(lambda x: x - x, [self], b.result)
    largest, total, dtype = _shifted(b, self, dim % self.rank)
    logarithm = b.pointwise(e.log, [total], total.type)
    return b.pointwise(lambda x, m, s: (x.to(dtype) - m - s).to(b.result.dtype), [self, largest, logarithm], b.result)


@lowering("aten::_softmax_backward_data", FLOATS, "softmax_backward", _ROWS)
def _softmax_backward(b: Any, grad_output: Any, output: Any, dim: int, input_dtype: str) -> Any:
    dtype = compute_dtype(output.dtype)
    if not output.rank:
        return b.pointwise(lambda g: (g - g).to(b.result.dtype), [grad_output], b.result)
    dims = [dim % output.rank]
    total = reduce(b, "sum", [grad_output, output], dims, dtype, lambda g, y: g.to(dtype) * y.to(dtype))
    return b.pointwise(lambda g, y, s: (y.to(dtype) * (g.to(dtype) - s)).to(b.result.dtype), [grad_output, output, total],
                       b.result)


@lowering("aten::_log_softmax_backward_data", FLOATS, "softmax_backward", _ROWS)
def _log_softmax_backward(b: Any, grad_output: Any, output: Any, dim: int, input_dtype: str) -> Any:
    dtype = compute_dtype(output.dtype)
    if not output.rank:
        return b.pointwise(lambda g: (g - g).to(b.result.dtype), [grad_output], b.result)
    total = reduce(b, "sum", [grad_output], [dim % output.rank], dtype)
    return b.pointwise(lambda g, y, s: (g.to(dtype) - e.exp(y.to(dtype)) * s).to(b.result.dtype),
                       [grad_output, output, total], b.result)


# --- layer norm -------------------------------------------------------------------------------------------


def _rows(b: Any, x: Any, normalized_shape: list[int]) -> tuple[Any, int, int]:
    """x as [rows, columns] with the normalized dimensions as columns."""
    columns = math.prod(normalized_shape)
    rows = math.prod(x.shape[: x.rank - len(normalized_shape)])
    return b.reshape(x, (rows, columns)), rows, columns


def _reciprocal_deviation(b: Any, variance: Any, eps: float) -> Any:
    return b.pointwise(lambda v: e.rsqrt(v + eps), [variance], variance.type)


@lowering("aten::native_layer_norm", FLOATS, "layer_norm", _ROWS)
def _layer_norm(b: Any, input: Any, normalized_shape: list[int], weight: Any, bias: Any, eps: float) -> Any:
    x, rows, columns = _rows(b, input, normalized_shape)
    dtype = compute_dtype(input.dtype)
    variance, mean = moments(b, x, [1], 0)
    deviation = _reciprocal_deviation(b, variance, eps)
    affine = [b.reshape(p, (1, columns)) for p in (weight, bias) if p is not None]

    def body(v: Any, m: Any, r: Any, *parameters: Any) -> Any:
        y = (v.to(dtype) - m) * r
        values = [p.to(dtype) for p in parameters]
        if weight is not None:
            y = y * values[0]
        if bias is not None:
            y = y + values[-1]
        return y.to(input.dtype)

    out = b.pointwise(body, [x, mean, deviation, *affine], _typed(b, input.dtype, (rows, columns)))
    statistics = [b.cast(b.reshape(s, t.shape), t.dtype) for s, t in zip((mean, deviation), b.results[1:], strict=True)]
    return (b.reshape(out, input.shape), *statistics)


@lowering("aten::native_layer_norm_backward", FLOATS, "layer_norm_backward", _ROWS)
def _layer_norm_backward(b: Any, grad_out: Any, input: Any, normalized_shape: list[int], mean: Any, rstd: Any, weight: Any,
                         bias: Any, output_mask: list[bool]) -> Any:
    x, rows, columns = _rows(b, input, normalized_shape)
    g = b.reshape(grad_out, (rows, columns))
    m, r = b.reshape(mean, (rows, 1)), b.reshape(rstd, (rows, 1))
    dtype = compute_dtype(input.dtype)
    scale = [] if weight is None else [b.reshape(weight, (1, columns))]
    grads: list[Any] = [None, None, None]

    def scaled(gradient: Any, w: Any) -> Any:
        return gradient.to(dtype) * w[0].to(dtype) if w else gradient.to(dtype)

    def normal(v: Any, mean_: Any, r_: Any) -> Any:
        return (v.to(dtype) - mean_.to(dtype)) * r_.to(dtype)

    if b.results[0] is not None:
        total = reduce(b, "sum", [g, *scale], [1], dtype, lambda gv, *w: scaled(gv, w))
        along = reduce(b, "sum", [g, x, m, r, *scale], [1], dtype,
                       lambda gv, v, mv, rv, *w: scaled(gv, w) * normal(v, mv, rv))

        def body(gv: Any, v: Any, mv: Any, rv: Any, s: Any, a: Any, *w: Any) -> Any:
            inner = scaled(gv, w) - s * (1 / columns) - normal(v, mv, rv) * a * (1 / columns)
            return (inner * rv.to(dtype)).to(input.dtype)

        grad = b.pointwise(body, [g, x, m, r, total, along, *scale], _typed(b, input.dtype, (rows, columns)))
        grads[0] = b.reshape(grad, input.shape)
    if b.results[1] is not None:
        grad = reduce(b, "sum", [g, x, m, r], [0], dtype, lambda gv, v, mv, rv: gv.to(dtype) * normal(v, mv, rv))
        grads[1] = b.cast(b.reshape(grad, b.results[1].shape), b.results[1].dtype)
    if b.results[2] is not None:
        grad = reduce(b, "sum", [g], [0], dtype)
        grads[2] = b.cast(b.reshape(grad, b.results[2].shape), b.results[2].dtype)
    return tuple(grads)


# --- batch norm -------------------------------------------------------------------------------------------


def _channel(b: Any, x: Any, rank: int) -> Any:
    """A [C] value shaped to broadcast along dimension 1 of ``rank`` dimensions."""
    return b.reshape(x, (1, x.type.numel, *[1] * (rank - 2)))


def _batch_norm(b: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                momentum: float, eps: float) -> tuple[Any, Any, Any, Any, Any]:
    """(output, mean, 1 / deviation, new running mean, new running variance); running values None if absent."""
    rank, dtype = input.rank, compute_dtype(input.dtype)
    dims = [k for k in range(rank) if k != 1]
    if training:
        variance, mean = moments(b, input, dims, 0)
    else:
        mean, variance = (b.cast(_channel(b, s, rank), dtype) for s in (running_mean, running_var))
    deviation = _reciprocal_deviation(b, variance, eps)
    affine = [_channel(b, p, rank) for p in (weight, bias) if p is not None]

    def body(v: Any, m: Any, r: Any, *parameters: Any) -> Any:
        y = (v.to(dtype) - m) * r
        values = [p.to(dtype) for p in parameters]
        if weight is not None:
            y = y * values[0]
        if bias is not None:
            y = y + values[-1]
        return y.to(input.dtype)

    out = b.pointwise(body, [input, mean, deviation, *affine], input.type)
    updated = [_updated(b, running, new, training, momentum, factor) for running, new, factor in
               ((running_mean, mean, 1.0), (running_var, variance, _unbiased(input)))]
    return out, mean, deviation, updated[0], updated[1]


def _unbiased(x: Any) -> float:
    """From the variance of a batch to the estimate that PyTorch keeps."""
    count = x.type.numel // max(x.shape[1], 1)
    return count / (count - 1) if count > 1 else 1.0


def _updated(b: Any, running: Any, new: Any, training: bool, momentum: float, factor: float) -> Any:
    """A running statistic after a batch, in the dtype that the op returns it in."""
    if running is None or len(b.results) < 5:
        return None
    type_ = TensorType(b.results[3].dtype, running.shape)
    if not training:
        return b.cast(running, type_.dtype)
    dtype = compute_dtype(new.dtype)

    def body(old: Any, fresh: Any) -> Any:
        return (old.to(dtype) * (1 - momentum) + fresh * (momentum * factor)).to(type_.dtype)

    return b.pointwise(body, [running, b.reshape(new, running.shape)], type_)


def _statistics(b: Any, mean: Any, deviation: Any, training: bool) -> tuple[Any, Any]:
    """mean and deviation as the op returns them: of the result's shape, or empty in evaluation."""
    made = []
    for value, type_ in zip((mean, deviation), b.results[1:3], strict=True):
        if type_ is None:
            made.append(None)
        elif type_.numel == 0:
            made.append(b.full(0, type_.dtype, type_.shape))
        else:
            made.append(b.cast(b.reshape(value, type_.shape), type_.dtype))
    return made[0], made[1]


@lowering("aten::native_batch_norm aten::_native_batch_norm_legit_functional aten::_native_batch_norm_legit "
          "aten::_native_batch_norm_legit.no_stats aten::_native_batch_norm_legit_no_training", FLOATS, "batch_norm", _ROWS)
def _native_batch_norm(b: Any, input: Any, weight: Any, bias: Any, momentum: float, eps: float, running_mean: Any = None,
                       running_var: Any = None, training: bool = False) -> Any:
    out, mean, deviation, new_mean, new_var = _batch_norm(
        b, input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    made = (out, *_statistics(b, mean, deviation, training))
    return (*made, new_mean, new_var) if len(b.results) == 5 else made


@lowering("aten::native_batch_norm_backward", FLOATS, "batch_norm_backward", _ROWS)
def _batch_norm_backward(b: Any, grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any,
                         save_mean: Any, save_invstd: Any, train: bool, eps: float, output_mask: list[bool]) -> Any:
    rank, dtype = input.rank, compute_dtype(input.dtype)
    dims = [k for k in range(rank) if k != 1]
    if train:
        mean, deviation = _channel(b, save_mean, rank), _channel(b, save_invstd, rank)
    else:
        mean = _channel(b, running_mean, rank)
        deviation = _reciprocal_deviation(b, b.cast(_channel(b, running_var, rank), dtype), eps)
    total = reduce(b, "sum", [grad_out], dims, dtype)
    along = reduce(b, "sum", [grad_out, input, mean], dims, dtype,
                   lambda g, x, m: g.to(dtype) * (x.to(dtype) - m.to(dtype)))
    scale = [] if weight is None else [_channel(b, weight, rank)]
    share = 1 / max(1, input.type.numel // max(input.shape[1], 1))

    batch = [input, mean, total, along] if train else []  # in evaluation the statistics are constants

    def body(g: Any, r: Any, *rest: Any) -> Any:
        g, r = g.to(dtype), r.to(dtype)
        if train:
            x, m, s, a = rest[:4]
            g = g - s * share - (x.to(dtype) - m.to(dtype)) * (a * r * r * share)
        factor = r * rest[-1].to(dtype) if scale else r
        return (g * factor).to(input.dtype)

    grads: list[Any] = [None, None, None]
    if b.results[0] is not None:
        grads[0] = b.pointwise(body, [grad_out, deviation, *batch, *scale], input.type)
    if b.results[1] is not None:
        type_ = b.results[1]
        grads[1] = b.pointwise(lambda a, r: (a * r.to(dtype)).to(type_.dtype),
                               [b.reshape(along, type_.shape), b.reshape(deviation, type_.shape)], type_)
    if b.results[2] is not None:
        grads[2] = b.cast(b.reshape(total, b.results[2].shape), b.results[2].dtype)
    return tuple(grads)


# --- group norm -------------------------------------------------------------------------------------------


@lowering("aten::native_group_norm", FLOATS, "group_norm", _ROWS)
def _group_norm(b: Any, input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    dtype, shape = compute_dtype(input.dtype), (N, group, C // group, HxW)
    x = b.reshape(input, shape)
    variance, mean = moments(b, x, [2, 3], 0)
    deviation = _reciprocal_deviation(b, variance, eps)
    affine = [b.reshape(p, (1, group, C // group, 1)) for p in (weight, bias) if p is not None]

    def body(v: Any, m: Any, r: Any, *parameters: Any) -> Any:
        y = (v.to(dtype) - m) * r
        values = [p.to(dtype) for p in parameters]
        if weight is not None:
            y = y * values[0]
        if bias is not None:
            y = y + values[-1]
        return y.to(input.dtype)

    out = b.pointwise(body, [x, mean, deviation, *affine], _typed(b, input.dtype, shape))
    statistics = [b.cast(b.reshape(s, t.shape), t.dtype) for s, t in zip((mean, deviation), b.results[1:], strict=True)]
    return (b.reshape(out, input.shape), *statistics)


@lowering("aten::native_group_norm_backward", FLOATS, "group_norm_backward", _ROWS)
def _group_norm_backward(b: Any, grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int,
                         group: int, output_mask: list[bool]) -> Any:
    dtype, shape = compute_dtype(input.dtype), (N, group, C // group, HxW)
    x, g = b.reshape(input, shape), b.reshape(grad_out, shape)
    m, r = b.reshape(mean, (N, group, 1, 1)), b.reshape(rstd, (N, group, 1, 1))
    scale = [] if weight is None else [b.reshape(weight, (1, group, C // group, 1))]
    share = 1 / max(1, C // group * HxW)
    grads: list[Any] = [None, None, None]

    def scaled(gradient: Any, w: Any) -> Any:
        return gradient.to(dtype) * w[0].to(dtype) if w else gradient.to(dtype)

    def normal(v: Any, mv: Any, rv: Any) -> Any:
        return (v.to(dtype) - mv.to(dtype)) * rv.to(dtype)

    if b.results[0] is not None:
        total = reduce(b, "sum", [g, *scale], [2, 3], dtype, lambda gv, *w: scaled(gv, w))
        along = reduce(b, "sum", [g, x, m, r, *scale], [2, 3], dtype,
                       lambda gv, v, mv, rv, *w: scaled(gv, w) * normal(v, mv, rv))

        def body(gv: Any, v: Any, mv: Any, rv: Any, s: Any, a: Any, *w: Any) -> Any:
            inner = scaled(gv, w) - s * share - normal(v, mv, rv) * a * share
            return (inner * rv.to(dtype)).to(input.dtype)

        made = b.pointwise(body, [g, x, m, r, total, along, *scale], TensorType(input.dtype, shape))
        grads[0] = b.reshape(made, input.shape)
    if b.results[1] is not None:
        made = reduce(b, "sum", [g, x, m, r], [0, 3], dtype, lambda gv, v, mv, rv: gv.to(dtype) * normal(v, mv, rv))
        grads[1] = b.cast(b.reshape(made, (C,)), b.results[1].dtype)
    if b.results[2] is not None:
        grads[2] = b.cast(b.reshape(reduce(b, "sum", [g], [0, 3], dtype), (C,)), b.results[2].dtype)
    return tuple(grads)
