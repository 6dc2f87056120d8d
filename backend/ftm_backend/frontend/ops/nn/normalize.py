"""Softmax, layer norm, group norm, batch norm, forward and backward: the natural sequence over rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import elements as e
from ftm_backend.frontend.builder import Builder, Value
from ftm_backend.frontend.building.norms import moments
from ftm_backend.frontend.building.record import lowering
from ftm_backend.frontend.building.recording import recorded
from ftm_backend.frontend.building.reduce import reduce
from ftm_backend.frontend.elements import Elem
from ftm_backend.frontend.trace import TensorType

recorded("aten::_native_batch_norm_legit_functional", tried=("mixed",), like=0, asks_cpu="halves", composite="unfit")
recorded("aten::_native_batch_norm_legit", tried=("mixed",), like=0, asks_cpu="halves")
recorded("aten::_native_batch_norm_legit_no_training", tried=("mixed",), like=0)
recorded("aten::native_layer_norm aten::native_group_norm", tried=("mixed",), asks_cpu="halves", composite="whole")
recorded("aten::native_batch_norm_backward aten::native_group_norm_backward", like=1)

_ROWS = {"f64": (1e-10, 1e-11), "f32": (5e-5, 1e-5), "f16": (4e-3, 1e-3), "bf16": (3e-2, 1e-2)}


# --- softmax ----------------------------------------------------------------------------------------------


def _shifted(b: Builder, x: Value, dim: int) -> tuple[Value, Value, str]:
    """(maximum along dim, sum of exp(x - maximum), compute dtype)."""
    dtype = compute_dtype(b.result.dtype)
    largest = reduce(b, "max", [x], [dim], dtype)
    total = reduce(b, "sum", [x, largest], [dim], dtype, lambda v, m: e.exp(v.to(dtype) - m))
    return largest, total, dtype


@lowering("aten::_softmax", FLOATS, "softmax", _ROWS)
def _softmax(b: Builder, self: Value, dim: int, half_to_float: bool) -> Value:
    if not self.rank:
        return b.pointwise(lambda x: x - x + 1, [self], b.result)
    largest, total, dtype = _shifted(b, self, dim % self.rank)
    return b.pointwise(lambda x, m, s: (e.exp(x.to(dtype) - m) / s).to(b.result.dtype), [self, largest, total], b.result)


@lowering("aten::_safe_softmax", FLOATS, "safe_softmax", _ROWS)
def _safe_softmax(b: Builder, self: Value, dim: int, dtype: str | None = None) -> Value:
    """Softmax in which a row of -inf gives zeros."""
    largest, total, compute = _shifted(b, self, dim % self.rank)

    def body(x: Elem, m: Elem, s: Elem) -> Elem:
        return e.where(m.eq(-math.inf), 0, e.exp(x.to(compute) - m) / s).to(b.result.dtype)

    return b.pointwise(body, [self, largest, total], b.result)


@lowering("aten::_log_softmax", FLOATS, "softmax", _ROWS)
def _log_softmax(b: Builder, self: Value, dim: int, half_to_float: bool) -> Value:
    if not self.rank:
        return b.pointwise(lambda x: x - x, [self], b.result)
    largest, total, dtype = _shifted(b, self, dim % self.rank)
    logarithm = b.pointwise(e.log, [total], total.type)
    return b.pointwise(lambda x, m, s: (x.to(dtype) - m - s).to(b.result.dtype), [self, largest, logarithm], b.result)


@lowering("aten::_softmax_backward_data", FLOATS, "softmax_backward", _ROWS)
def _softmax_backward(b: Builder, grad_output: Value, output: Value, dim: int, input_dtype: str) -> Value:
    dtype = compute_dtype(output.dtype)
    if not output.rank:
        return b.pointwise(lambda g: (g - g).to(b.result.dtype), [grad_output], b.result)
    dims = [dim % output.rank]
    total = reduce(b, "sum", [grad_output, output], dims, dtype, lambda g, y: g.to(dtype) * y.to(dtype))
    return b.pointwise(lambda g, y, s: (y.to(dtype) * (g.to(dtype) - s)).to(b.result.dtype), [grad_output, output, total], b.result)


@lowering("aten::_log_softmax_backward_data", FLOATS, "softmax_backward", _ROWS)
def _log_softmax_backward(b: Builder, grad_output: Value, output: Value, dim: int, input_dtype: str) -> Value:
    dtype = compute_dtype(output.dtype)
    if not output.rank:
        return b.pointwise(lambda g: (g - g).to(b.result.dtype), [grad_output], b.result)
    total = reduce(b, "sum", [grad_output], [dim % output.rank], dtype)
    return b.pointwise(lambda g, y, s: (g.to(dtype) - e.exp(y.to(dtype)) * s).to(b.result.dtype), [grad_output, output, total], b.result)


# --- layer norm and group norm: a mean and a deviation for each group of elements ---------------------------


def _reciprocal_deviation(b: Builder, variance: Value, eps: float) -> Value:
    return b.pointwise(lambda v: e.rsqrt(v + eps), [variance], variance.type)


def _normalized(b: Builder, x: Value, dims: list[int], weight: Value | None, bias: Value | None, eps: float) -> tuple[Value, ...]:
    """x normalized over ``dims``, in its own type, with the mean and 1 / deviation of each group.

    ``weight`` and ``bias`` broadcast against x, or are None.
    """
    dtype = compute_dtype(x.dtype)
    variance, mean = moments(b, x, dims, 0)
    deviation = _reciprocal_deviation(b, variance, eps)

    def body(v: Elem, m: Elem, r: Elem, *parameters: Elem) -> Elem:
        y = (v.to(dtype) - m) * r
        values = [p.to(dtype) for p in parameters]
        if weight is not None:
            y = y * values[0]
        if bias is not None:
            y = y + values[-1]
        return y.to(x.dtype)

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


@lowering("aten::native_layer_norm", FLOATS, "layer_norm", _ROWS)
def _layer_norm(
    b: Builder, input: Value, normalized_shape: list[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, ...]:
    rows, columns = _rows(input, normalized_shape)
    weight, bias = _reshaped(b, weight, (1, columns)), _reshaped(b, bias, (1, columns))
    return _normalized(b, b.reshape(input, (rows, columns)), [1], weight, bias, eps)


@lowering("aten::native_layer_norm_backward", FLOATS, "layer_norm_backward", _ROWS)
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


@lowering("aten::native_group_norm", FLOATS, "group_norm", _ROWS)
def _group_norm(
    b: Builder, input: Value, weight: Value | None, bias: Value | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Value, ...]:
    weight, bias = _reshaped(b, weight, (1, group, C // group, 1)), _reshaped(b, bias, (1, group, C // group, 1))
    return _normalized(b, b.reshape(input, (N, group, C // group, HxW)), [2, 3], weight, bias, eps)


@lowering("aten::native_group_norm_backward", FLOATS, "group_norm_backward", _ROWS)
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


# --- batch norm -------------------------------------------------------------------------------------------


def _channel(b: Builder, x: Value | None, rank: int) -> Value:
    """A [C] value shaped to broadcast along dimension 1 of ``rank`` dimensions."""
    assert x is not None, "the mode of the call needs it"
    return b.reshape(x, (1, x.type.numel, *[1] * (rank - 2)))


def _batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value, Value | None, Value | None]:
    """(output, mean, 1 / deviation, new running mean, new running variance); running values None if absent."""
    rank, dtype = input.rank, compute_dtype(input.dtype)
    dims = [k for k in range(rank) if k != 1]
    if training:
        variance, mean = moments(b, input, dims, 0)
    else:
        mean, variance = (b.cast(_channel(b, s, rank), dtype) for s in (running_mean, running_var))
    deviation = _reciprocal_deviation(b, variance, eps)
    affine = [_channel(b, p, rank) for p in (weight, bias) if p is not None]

    def body(v: Elem, m: Elem, r: Elem, *parameters: Elem) -> Elem:
        y = (v.to(dtype) - m) * r
        values = [p.to(dtype) for p in parameters]
        if weight is not None:
            y = y * values[0]
        if bias is not None:
            y = y + values[-1]
        return y.to(input.dtype)

    out = b.pointwise(body, [input, mean, deviation, *affine], input.type)
    updated = [
        _updated(b, running, new, training, momentum, factor)
        for running, new, factor in ((running_mean, mean, 1.0), (running_var, variance, _unbiased(input)))
    ]
    return out, mean, deviation, updated[0], updated[1]


def _unbiased(x: Value) -> float:
    """From the variance of a batch to the estimate that PyTorch keeps."""
    count = x.type.numel // max(x.shape[1], 1)
    return count / (count - 1) if count > 1 else 1.0


def _updated(b: Builder, running: Value | None, new: Value, training: bool, momentum: float, factor: float) -> Value | None:
    """A running statistic after a batch, in the dtype that the op returns it in."""
    if running is None or len(b.results) < 5:
        return None
    type_ = TensorType(b.wanted(3).dtype, running.shape)
    if not training:
        return b.cast(running, type_.dtype)
    dtype = compute_dtype(new.dtype)

    def body(old: Elem, fresh: Elem) -> Elem:
        return (old.to(dtype) * (1 - momentum) + fresh * (momentum * factor)).to(type_.dtype)

    return b.pointwise(body, [running, b.reshape(new, running.shape)], type_)


def _statistics(b: Builder, mean: Value, deviation: Value, training: bool) -> tuple[Value | None, Value | None]:
    """mean and deviation as the op returns them: of the result's shape, or empty in evaluation."""
    made: list[Value | None] = []
    for value, type_ in zip((mean, deviation), b.results[1:3], strict=True):
        if type_ is None:
            made.append(None)
        elif type_.numel == 0:
            made.append(b.full(0, type_.dtype, type_.shape))
        else:
            made.append(b.cast(b.reshape(value, type_.shape), type_.dtype))
    return made[0], made[1]


@lowering(
    "aten::native_batch_norm aten::_native_batch_norm_legit_functional aten::_native_batch_norm_legit "
    "aten::_native_batch_norm_legit.no_stats aten::_native_batch_norm_legit_no_training",
    FLOATS,
    "batch_norm",
    _ROWS,
)
def _native_batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    momentum: float,
    eps: float,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    training: bool = False,
) -> tuple[Value | None, ...]:
    out, mean, deviation, new_mean, new_var = _batch_norm(b, input, weight, bias, running_mean, running_var, training, momentum, eps)
    made = (out, *_statistics(b, mean, deviation, training))
    return (*made, new_mean, new_var) if len(b.results) == 5 else made


@lowering("aten::native_batch_norm_backward", FLOATS, "batch_norm_backward", _ROWS)
def _batch_norm_backward(
    b: Builder,
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: list[bool],
) -> tuple[Value | None, ...]:
    rank, dtype = input.rank, compute_dtype(input.dtype)
    dims = [k for k in range(rank) if k != 1]
    if train:
        mean, deviation = _channel(b, save_mean, rank), _channel(b, save_invstd, rank)
    else:
        mean = _channel(b, running_mean, rank)
        deviation = _reciprocal_deviation(b, b.cast(_channel(b, running_var, rank), dtype), eps)
    total = reduce(b, "sum", [grad_out], dims, dtype)
    along = reduce(b, "sum", [grad_out, input, mean], dims, dtype, lambda g, x, m: g.to(dtype) * (x.to(dtype) - m.to(dtype)))
    scale = [] if weight is None else [_channel(b, weight, rank)]
    share = 1 / max(1, input.type.numel // max(input.shape[1], 1))

    batch = [input, mean, total, along] if train else []  # in evaluation the statistics are constants

    def body(g: Elem, r: Elem, *rest: Elem) -> Elem:
        g, r = g.to(dtype), r.to(dtype)
        if train:
            x, m, s, a = rest[:4]
            g = g - s * share - (x.to(dtype) - m.to(dtype)) * (a * r * r * share)
        factor = r * rest[-1].to(dtype) if scale else r
        return (g * factor).to(input.dtype)

    grads: list[Value | None] = [None, None, None]
    if b.results[0] is not None:
        grads[0] = b.pointwise(body, [grad_out, deviation, *batch, *scale], input.type)
    if b.results[1] is not None:
        type_ = b.results[1]
        grads[1] = b.pointwise(
            lambda a, r: (a * r.to(dtype)).to(type_.dtype), [b.reshape(along, type_.shape), b.reshape(deviation, type_.shape)], type_
        )
    if b.results[2] is not None:
        grads[2] = b.cast(b.reshape(total, b.wanted(2).shape), b.wanted(2).dtype)
    return tuple(grads)
