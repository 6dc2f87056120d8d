"""Op records of batch norm, forward and backward, with batch or running statistics."""

from __future__ import annotations

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.moments import inverse_std, normalization_body, variance_and_mean
from ftm_backend.frontend.oplib.op_registry import ROWS, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded(
    "aten::_native_batch_norm_legit_functional",
    tried=("mixed",),
    like=0,
    asks_cpu="halves",
    composite="unfit",
)
recorded("aten::_native_batch_norm_legit", tried=("mixed",), like=0, asks_cpu="halves")
recorded("aten::_native_batch_norm_legit_no_training", tried=("mixed",), like=0)
recorded("aten::native_batch_norm_backward", like=1, masks_results=True)


def _channel(b: LinalgBuilder, x: StridedValue | None, rank: int) -> StridedValue:
    """Reshape a [C] tensor to broadcast along dimension 1 of `rank` dimensions."""
    assert x is not None, "the mode of the call needs it"
    return b.reshape(x, (1, x.type.numel, *[1] * (rank - 2)))


def _unbiased(x: StridedValue) -> float:
    """Return the factor from a batch's variance to PyTorch's running estimate."""
    count = x.type.numel // max(x.shape[1], 1)
    return count / (count - 1) if count > 1 else 1.0


def _updated(
    b: LinalgBuilder,
    running: StridedValue | None,
    new: StridedValue,
    training: bool,
    momentum: float,
    factor: float,
) -> StridedValue | None:
    """Return the updated running statistic in the op's result dtype."""
    if running is None or len(b.results) < 5:
        return None
    type_ = TensorType(b.result_type(3).dtype, running.shape)
    if not training:
        return b.cast(running, type_.dtype)
    dtype = compute_dtype(new.dtype)

    def body(old: ScalarExpr, fresh: ScalarExpr) -> ScalarExpr:
        return old.to(dtype) * (1 - momentum) + fresh * (momentum * factor)

    return b.pointwise(body, [running, b.reshape(new, running.shape)], type_)


def _statistics(
    b: LinalgBuilder, mean: StridedValue, deviation: StridedValue
) -> tuple[StridedValue | None, StridedValue | None]:
    """Return mean and deviation in the op's result shapes; empty in evaluation."""
    result: list[StridedValue | None] = []
    for value, type_ in zip((mean, deviation), b.results[1:3], strict=True):
        if type_ is None:
            result.append(None)
        elif type_.numel == 0:
            result.append(b.full(0, type_.dtype, type_.shape))
        else:
            result.append(b.as_type(value, type_))
    return result[0], result[1]


@lowering(
    "aten::native_batch_norm aten::_native_batch_norm_legit_functional"
    " aten::_native_batch_norm_legit aten::_native_batch_norm_legit.no_stats"
    " aten::_native_batch_norm_legit_no_training",
    FLOATS,
    "batch_norm",
    ROWS,
)
def _native_batch_norm(
    b: LinalgBuilder,
    input: StridedValue,
    weight: StridedValue | None,
    bias: StridedValue | None,
    momentum: float,
    eps: float,
    running_mean: StridedValue | None = None,
    running_var: StridedValue | None = None,
    training: bool = False,
) -> tuple[StridedValue | None, ...]:
    """Return output, mean, 1 / deviation, and the new running mean and variance if they exist."""
    rank, dtype = input.rank, compute_dtype(input.dtype)
    if training:
        variance, mean = variance_and_mean(b, input, [k for k in range(rank) if k != 1], 0)
    else:
        mean, variance = (b.cast(_channel(b, s, rank), dtype) for s in (running_mean, running_var))
    deviation = inverse_std(b, variance, eps)
    affine = [_channel(b, p, rank) for p in (weight, bias) if p is not None]
    body = normalization_body(dtype, input.dtype, weight is not None, bias is not None)
    out = b.pointwise(body, [input, mean, deviation, *affine])
    updated = [
        _updated(b, running, new, training, momentum, factor)
        for running, new, factor in (
            (running_mean, mean, 1.0),
            (running_var, variance, _unbiased(input)),
        )
    ]
    result = (out, *_statistics(b, mean, deviation))
    return (*result, *updated) if len(b.results) == 5 else result


@lowering("aten::native_batch_norm_backward", FLOATS, "batch_norm_backward", ROWS)
def _batch_norm_backward(
    b: LinalgBuilder,
    grad_out: StridedValue,
    input: StridedValue,
    weight: StridedValue | None,
    running_mean: StridedValue | None,
    running_var: StridedValue | None,
    save_mean: StridedValue | None,
    save_invstd: StridedValue | None,
    train: bool,
    eps: float,
) -> tuple[StridedValue | None, ...]:
    rank, dtype = input.rank, compute_dtype(input.dtype)
    dims = [k for k in range(rank) if k != 1]
    if train:
        mean, deviation = _channel(b, save_mean, rank), _channel(b, save_invstd, rank)
    else:
        mean = _channel(b, running_mean, rank)
        deviation = inverse_std(b, b.cast(_channel(b, running_var, rank), dtype), eps)
    sum_dy = reduce(b, "sum", [grad_out], dims, dtype)
    sum_dy_xmu = reduce(
        b,
        "sum",
        [grad_out, input, mean],
        dims,
        dtype,
        lambda g, x, m: g.to(dtype) * (x.to(dtype) - m.to(dtype)),
    )
    scale = [] if weight is None else [_channel(b, weight, rank)]
    inverse_count = 1 / max(1, input.type.numel // max(input.shape[1], 1))

    # in evaluation, the statistics are constants
    batch = [input, mean, sum_dy, sum_dy_xmu] if train else []

    def body(g: ScalarExpr, r: ScalarExpr, *rest: ScalarExpr) -> ScalarExpr:
        g, r = g.to(dtype), r.to(dtype)
        if train:
            x, m, s, a = rest[:4]
            g = g - s * inverse_count - (x.to(dtype) - m.to(dtype)) * (a * r * r * inverse_count)
        factor = r * rest[-1].to(dtype) if scale else r
        return g * factor

    grads: list[StridedValue | None] = [None, None, None]
    if b.results[0] is not None:
        grads[0] = b.pointwise(body, [grad_out, deviation, *batch, *scale], input.type)
    if b.results[1] is not None:
        type_ = b.results[1]
        grads[1] = b.pointwise(
            lambda a, r: a * r.to(dtype),
            [b.reshape(sum_dy_xmu, type_.shape), b.reshape(deviation, type_.shape)],
            type_,
        )
    if b.results[2] is not None:
        grads[2] = b.as_type(sum_dy, b.result_type(2))
    return tuple(grads)
