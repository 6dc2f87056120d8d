"""Op records of losses: negative log likelihood, and elementwise losses with reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index
from ftm_backend.frontend.oplib.op_registry import SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import IndexArguments, recorded
from ftm_backend.frontend.oplib.reductions import broadcast_shapes, reduce
from ftm_backend.frontend.oplib.value_preconditions import fault_unless
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded("aten::binary_cross_entropy", may_fail=True, tried=("mixed",))
recorded(
    "aten::nll_loss_forward aten::nll_loss2d_forward",
    indices=IndexArguments(1, "classes"),
    tried=("mixed_reals", "integers"),
)

NONE, MEAN, SUM = 0, 1, 2
"""PyTorch's numbers of a loss's reductions."""


def _rows(
    b: LinalgBuilder, x: StridedValue, target: StridedValue
) -> tuple[StridedValue, StridedValue, int]:
    """Return scores as [N, C, P], targets as [N, 1, P], and C; P counts spatial positions."""
    batch = 1 if x.rank == 1 else x.shape[0]
    classes = x.shape[0 if x.rank == 1 else 1]
    indices = x.type.numel // max(1, batch * classes) if x.type.numel else 0
    return b.reshape(x, (batch, classes, indices)), b.reshape(target, (batch, 1, indices)), classes


def _weights(b: LinalgBuilder, weight: StridedValue | None, classes: int) -> list[StridedValue]:
    return [] if weight is None else [b.reshape(weight, (1, classes, 1))]


@lowering("aten::nll_loss_forward aten::nll_loss2d_forward", FLOATS + ("i64",), "nll_loss", SUMS)
def _nll_loss(
    b: LinalgBuilder,
    self: StridedValue,
    target: StridedValue,
    weight: StridedValue | None,
    reduction: int,
    ignore_index: int,
) -> tuple[StridedValue, StridedValue]:
    """Gather the targets' scores; a target that is no class faults (an error on the CPU)."""
    x, t, classes = _rows(b, self, target)
    dtype = compute_dtype(self.dtype)
    scores, per_row = x, TensorType(dtype, t.shape)
    weights = None if weight is None else weight

    def unless_ignored(label: ScalarExpr, value: ScalarExpr) -> ScalarExpr:
        return e.where(label.ne(ignore_index), value, 0)

    def index(label: ScalarExpr) -> ScalarExpr:
        return checked_index(unless_ignored(label, label), classes)

    def share(label: ScalarExpr) -> ScalarExpr:
        return (
            b.constant(1, dtype)
            if weights is None
            else b.extract(weights, [index(label)]).to(dtype)
        )

    def score(label: ScalarExpr) -> ScalarExpr:
        value = -b.extract(scores, [b.index(0), index(label), b.index(2)]).to(dtype)
        return unless_ignored(label, value if weights is None else value * share(label))

    losses = b.pointwise(score, [t], per_row)
    if reduction == NONE and self.rank != 1:
        result = b.as_type(losses)
        return result, b.full(0, b.result_type(1).dtype, b.result_type(1).shape)
    # an unbatched sample is its own sum, whose weight is defined for every reduction
    total = reduce(b, "sum", [losses], [0, 1, 2], dtype)
    shares = b.pointwise(lambda label: unless_ignored(label, share(label)), [t], per_row)
    weight_sum = reduce(b, "sum", [shares], [0, 1, 2], dtype)
    if reduction == MEAN:
        total = b.pointwise(lambda s, n: s / n, [total, weight_sum])
    return (
        b.as_type(total),
        b.as_type(weight_sum, b.result_type(1)),
    )


@lowering(
    "aten::nll_loss_backward aten::nll_loss2d_backward",
    FLOATS + ("i64",),
    "nll_loss_backward",
    SUMS,
)
def _nll_loss_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    self: StridedValue,
    target: StridedValue,
    weight: StridedValue | None,
    reduction: int,
    ignore_index: int,
    total_weight: StridedValue,
) -> StridedValue:
    x, t, classes = _rows(b, self, target)
    dtype = compute_dtype(self.dtype)
    scale = _weights(b, weight, classes)
    grad = b.reshape(grad_output, t.shape if reduction == NONE else (1, 1, 1))
    total = [b.reshape(total_weight, (1, 1, 1))] if reduction == MEAN else []

    def body(label: ScalarExpr, g: ScalarExpr, *scales: ScalarExpr) -> ScalarExpr:
        value = -g.to(dtype)
        if total:
            value = value / scales[0].to(dtype)
        if scale:
            value = value * scales[-1].to(dtype)
        hit = label.eq(b.index(1)) & label.ne(ignore_index)
        return e.where(hit, value, 0)

    result = b.pointwise(
        body, [t.expand(x.shape), grad, *total, *scale], TensorType(self.dtype, x.shape)
    )
    return b.reshape(result, self.shape)


def _loss(
    names: str,
    family: str,
    element: Callable[..., ScalarExpr],
    demand: Callable[[ScalarExpr], ScalarExpr] | None = None,
) -> None:
    """Register a loss ``element(input, target, extra arguments)`` with its reduction.

    `demand` is a condition on the elements of input and target. A tensor of weights multiplies the
    element, one of positive weights (``pos_weight``) is an argument of it.
    """

    @lowering(names, FLOATS, family, SUMS)
    def lower(
        b: LinalgBuilder,
        self: StridedValue,
        target: StridedValue,
        reduction: int,
        weight: StridedValue | None = None,
        pos_weight: StridedValue | None = None,
        **extra: object,
    ) -> StridedValue:
        dtype = compute_dtype(self.dtype)
        shape = b.result.shape if reduction == NONE else broadcast_shapes(self.shape, target.shape)
        scales = [v for v in (weight, pos_weight) if v is not None]
        values = [v.expand(shape) for v in (self, target, *scales)]
        checks = (
            [fault_unless(b, value, demand) for value in (self, target)]
            if demand is not None
            else []
        )

        def loss(x: ScalarExpr, t: ScalarExpr, *w: ScalarExpr) -> ScalarExpr:
            scaled = {} if pos_weight is None else {"pos_weight": w[-1].to(dtype)}
            value = element(x.to(dtype), t.to(dtype), **scaled, **extra)
            return value if weight is None else value * w[0].to(dtype)

        def with_checks(value: ScalarExpr, zeros: Sequence[ScalarExpr]) -> ScalarExpr:
            return sum((zero.to(dtype) for zero in zeros), start=value)

        if reduction == NONE:
            operands = [*values, *(check.expand(shape) for check in checks)]
            return b.pointwise(
                lambda *v: with_checks(loss(*v[: len(values)]), v[len(values) :]),
                operands,
                b.result,
            )
        total = b.reshape(reduce(b, "sum", values, range(len(shape)), dtype, loss), ())
        count = self.type.numel if shape == self.shape else TensorType(dtype, shape).numel
        if reduction == SUM and not checks:
            return b.cast(total, b.result.dtype)
        divisor = count if reduction == MEAN else 1
        return b.pointwise(
            lambda s, *zeros: with_checks(s, zeros) / divisor,
            [total, *checks],
            b.result,
        )


def _loss_backward(names: str, family: str, element: Callable[..., ScalarExpr]) -> None:
    """Register the gradient ``element(input, target, extra)`` of such a loss."""

    @lowering(names, FLOATS, family, SUMS)
    def lower(
        b: LinalgBuilder,
        grad_output: StridedValue,
        self: StridedValue,
        target: StridedValue,
        reduction: int,
        weight: StridedValue | None = None,
        **extra: object,
    ) -> StridedValue:
        dtype = compute_dtype(self.dtype)
        count = self.type.numel
        values = [self, target, grad_output, *([] if weight is None else [weight])]

        def body(x: ScalarExpr, t: ScalarExpr, g: ScalarExpr, *w: ScalarExpr) -> ScalarExpr:
            value = element(x.to(dtype), t.to(dtype), **extra) * g.to(dtype)
            if w:
                value = value * w[0].to(dtype)
            if reduction == MEAN:
                value = value / count
            return value

        return b.pointwise(body, [v.expand(b.result.shape) for v in values], b.result)


def _smooth_l1(x: ScalarExpr, t: ScalarExpr, beta: float) -> ScalarExpr:
    distance = abs(x - t)
    return (
        distance
        if beta == 0
        else e.where(distance < beta, distance * distance * 0.5 / beta, distance - 0.5 * beta)
    )


def _smooth_l1_backward(x: ScalarExpr, t: ScalarExpr, beta: float) -> ScalarExpr:
    d = x - t
    sign = (d > 0).to(d.dtype) - (d < 0).to(d.dtype)
    return sign if beta == 0 else e.where(abs(d) < beta, d / beta, sign)


def _huber(x: ScalarExpr, t: ScalarExpr, delta: float) -> ScalarExpr:
    distance = abs(x - t)
    return e.where(distance <= delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)


def _huber_backward(x: ScalarExpr, t: ScalarExpr, delta: float) -> ScalarExpr:
    d = x - t
    return e.minimum(e.maximum(d, -delta), delta)


def _bce(x: ScalarExpr, t: ScalarExpr) -> ScalarExpr:
    no = e.maximum(e.log1p(-x), -100)
    yes = e.maximum(e.log(x), -100)
    return (t - 1) * no - t * yes


def _bce_backward(x: ScalarExpr, t: ScalarExpr) -> ScalarExpr:
    return (x - t) / e.maximum((x.const(1) - x) * x, 1e-12)


_loss("aten::mse_loss", "loss", lambda x, t: (x - t) * (x - t))
_loss_backward("aten::mse_loss_backward", "loss_backward", lambda x, t: (x - t) * 2)
_loss("aten::smooth_l1_loss", "loss", _smooth_l1)
_loss_backward("aten::smooth_l1_loss_backward", "loss_backward", _smooth_l1_backward)
_loss("aten::huber_loss", "loss", _huber)
_loss_backward("aten::huber_loss_backward", "loss_backward", _huber_backward)
_loss("aten::binary_cross_entropy", "probability_loss", _bce, demand=lambda p: (p >= 0) & (p <= 1))
_loss_backward("aten::binary_cross_entropy_backward", "probability_loss_backward", _bce_backward)


def _bce_with_logits(
    x: ScalarExpr, t: ScalarExpr, pos_weight: ScalarExpr | None = None
) -> ScalarExpr:
    log_sigmoid = e.minimum(x, 0) - e.log1p(e.exp(-abs(x)))
    factor = x.const(1) if pos_weight is None else (pos_weight - 1) * t + 1
    return (x.const(1) - t) * x - log_sigmoid * factor


_loss("aten::binary_cross_entropy_with_logits", "logits_loss", _bce_with_logits)
