"""Op records of margin losses, with one or several target classes."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index
from ftm_backend.frontend.oplib.op_registry import SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.ops.nn.loss import MEAN, NONE
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded(
    "aten::multi_margin_loss aten::multilabel_margin_loss_forward",
    may_fail=True,
    asks_cpu="one_sample",
)
recorded("aten::multi_margin_loss_backward aten::multilabel_margin_loss_backward", may_fail=True)


def _rows(b: LinalgBuilder, x: StridedValue) -> StridedValue:
    """Return scores as [N, C]."""
    classes = x.shape[-1] if x.rank else 1
    return b.reshape(x, (x.type.numel // max(1, classes), classes))


def _finished(b: LinalgBuilder, losses: StridedValue, reduction: int) -> StridedValue:
    """Convert losses [N, 1] to the op's result."""
    if reduction == NONE:
        return b.as_type(losses)
    total = b.reshape(reduce(b, "sum", [losses], [0], losses.dtype), b.result.shape)
    count = losses.shape[0] if reduction == MEAN else 1
    return b.pointwise(lambda s: s / count, [total], b.result)


def _incoming(b: LinalgBuilder, grad: StridedValue, rows: int, reduction: int) -> StridedValue:
    """Return the gradient of each row as [N, 1] or [1, 1]."""
    return b.reshape(grad, (rows, 1) if reduction == NONE else (1, 1))


# --- one right class
# --------------------------------------------------------------------------------------


def _margins(
    b: LinalgBuilder,
    x: StridedValue,
    target: StridedValue,
    weight: StridedValue | None,
    margin: Number,
    dtype: str,
) -> tuple[list[StridedValue], Callable[..., tuple[ScalarExpr, ScalarExpr | None, ScalarExpr]]]:
    """Prepare the computation of margins.

    Returns:
        The operands, and a function from their ScalarExprs to the distance to the margin, the row's
        weight, and whether this is the target class.
    """
    scores = x
    labels = b.reshape(target, (x.shape[0], 1))
    limit = b.scalar_operand(margin, dtype)

    def index(label: ScalarExpr) -> ScalarExpr:
        return checked_index(label, x.shape[1])

    right = b.pointwise(lambda t: b.extract(scores, [b.index(0), index(t)]).to(dtype), [labels])
    operands = [x, labels, right]
    if weight is not None:
        operands.append(
            b.pointwise(lambda t: b.extract(weight, [index(t)]).to(dtype), [labels], right.type)
        )

    def split(
        v: ScalarExpr, label: ScalarExpr, best: ScalarExpr, *scale: ScalarExpr
    ) -> tuple[ScalarExpr, ScalarExpr | None, ScalarExpr]:
        distance = limit - best + v.to(dtype)
        factor = scale[0] if scale else None
        return distance, factor, label.to("i64").eq(b.index(1))

    return operands, split


@lowering("aten::multi_margin_loss", FLOATS + ("i64",), "margin_loss", SUMS)
def _multi_margin(
    b: LinalgBuilder,
    self: StridedValue,
    target: StridedValue,
    p: Number = 1,
    margin: Number = 1,
    weight: StridedValue | None = None,
    reduction: int = 1,
) -> StridedValue:
    x, dtype = _rows(b, self), compute_dtype(self.dtype)
    power = b.scalar_operand(p, dtype)
    operands, split = _margins(b, x, target, weight, margin, dtype)

    def loss(*values: ScalarExpr) -> ScalarExpr:
        distance, factor, is_right = split(*values)
        value = e.where(power.eq(1), distance, distance * distance)
        value = value if factor is None else value * factor
        return e.where((distance > 0) & ~is_right, value, 0)

    total = reduce(b, "sum", [v.expand(x.shape) for v in operands], [1], dtype, loss)
    return _finished(b, b.pointwise(lambda s: s / x.shape[1], [total]), reduction)


@lowering("aten::multi_margin_loss_backward", FLOATS + ("i64",), "margin_loss_backward", SUMS)
def _multi_margin_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    self: StridedValue,
    target: StridedValue,
    p: Number,
    margin: Number,
    weight: StridedValue | None = None,
    reduction: int = 1,
) -> StridedValue:
    x, dtype = _rows(b, self), compute_dtype(self.dtype)
    rows, classes = x.shape
    power = b.scalar_operand(p, dtype)
    operands, split = _margins(b, x, target, weight, margin, dtype)
    count = classes * (rows if reduction == MEAN else 1)

    def slope(*values: ScalarExpr) -> ScalarExpr:
        distance, factor, is_right = split(*values)
        value = e.where(power.eq(1), distance.const(1), distance * 2)
        value = value if factor is None else value * factor
        return e.where((distance > 0) & ~is_right, value / count, 0)

    whole = [v.expand(x.shape) for v in operands]
    slopes = b.pointwise(slope, whole, TensorType(dtype, x.shape))
    total = reduce(b, "sum", [slopes], [1], dtype)

    def body(s: ScalarExpr, t: ScalarExpr, label: ScalarExpr, g: ScalarExpr) -> ScalarExpr:
        return e.where(label.to("i64").eq(b.index(1)), -t, s) * g.to(dtype)

    result = b.pointwise(
        body,
        [slopes, total, b.reshape(target, (rows, 1)), _incoming(b, grad_output, rows, reduction)],
        TensorType(self.dtype, x.shape),
    )
    return b.reshape(result, self.shape)


# --- several right classes
# --------------------------------------------------------------------------------


def _right_classes(b: LinalgBuilder, target: StridedValue) -> tuple[StridedValue, StridedValue]:
    """Return targets [N, T] with -1 after the first negative one, and the classes named [N, C]."""
    rows, count = target.shape
    negative = reduce(b, "min", [target], [1], "i64", lambda t: e.where(t < 0, b.index(1), count))
    named = b.pointwise(
        lambda t, end: e.where(b.index(1) < end, checked_index(e.where(t < 0, 0, t), count), -1),
        [target, negative],
    )
    is_right = reduce(
        b,
        "or",
        [b.reshape(named, (rows, 1, count)).expand((rows, count, count))],
        [2],
        "i1",
        lambda t: t.eq(b.index(1)),
    )
    return named, b.reshape(is_right, (rows, count))


@lowering("aten::multilabel_margin_loss_forward", FLOATS + ("i64",), "multilabel_margin_loss", SUMS)
def _multilabel_margin(
    b: LinalgBuilder, self: StridedValue, target: StridedValue, reduction: int
) -> tuple[StridedValue, StridedValue]:
    x, dtype = _rows(b, self), compute_dtype(self.dtype)
    rows, classes = x.shape
    if not x.type.numel:
        total = b.full(0, dtype, (rows, 1))
        return _finished(b, total, reduction), b.full(
            0, b.result_type(1).dtype, b.result_type(1).shape
        )
    named, is_right = _right_classes(b, _rows(b, target))
    scores = x
    cube = (rows, classes, classes)  # row, target class, other class

    def loss(t: ScalarExpr, v: ScalarExpr, right: ScalarExpr) -> ScalarExpr:
        best = b.extract(scores, [b.index(0), e.maximum(t, 0)]).to(dtype)
        distance = v.to(dtype) - best + 1
        return e.where((t >= 0) & ~right & (distance > 0), distance, 0)

    operands = [
        b.reshape(named, (rows, classes, 1)),
        b.reshape(x, (rows, 1, classes)),
        b.reshape(is_right, (rows, 1, classes)),
    ]
    total = reduce(b, "sum", [v.expand(cube) for v in operands], [1, 2], dtype, loss)
    losses = b.pointwise(
        lambda s: s / classes, [b.reshape(total, (rows, 1))], TensorType(dtype, (rows, 1))
    )
    mask = b.results[1]
    assert mask is not None
    return _finished(b, losses, reduction), b.as_type(is_right, mask)


@lowering(
    "aten::multilabel_margin_loss_backward",
    FLOATS + ("i64",),
    "multilabel_margin_loss_backward",
    SUMS,
)
def _multilabel_margin_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    self: StridedValue,
    target: StridedValue,
    reduction: int,
    is_target: StridedValue,
) -> StridedValue:
    x, dtype = _rows(b, self), compute_dtype(self.dtype)
    rows, classes = x.shape
    if not x.type.numel:
        return b.full(0, self.dtype, self.shape)
    named, is_right = _right_classes(b, _rows(b, target))
    scores = x
    count = classes * (rows if reduction == MEAN else 1)

    def active(t: ScalarExpr, v: ScalarExpr, right: ScalarExpr) -> ScalarExpr:
        best = b.extract(scores, [b.index(0), e.maximum(t, 0)]).to(dtype)
        return e.where((t >= 0) & ~right & (v.to(dtype) - best + 1 > 0), best.const(1), 0)

    cube = (rows, classes, classes)  # row, target class, other class
    wide = [
        b.reshape(named, (rows, classes, 1)),
        b.reshape(x, (rows, 1, classes)),
        b.reshape(is_right, (rows, 1, classes)),
    ]
    hits = b.pointwise(active, [v.expand(cube) for v in wide], TensorType(dtype, cube))
    by_other = b.reshape(reduce(b, "sum", [hits], [1], dtype), (rows, classes))  # by other class
    # by position of the target class
    by_target = b.reshape(reduce(b, "sum", [hits], [2], dtype), (rows, 1, classes))
    by_class = reduce(
        b,
        "sum",
        [by_target.expand(cube), b.reshape(named, (rows, 1, classes)).expand(cube)],
        [2],
        dtype,
        lambda n, t: e.where(t.eq(b.index(1)), n, 0),
    )

    def body(up: ScalarExpr, down: ScalarExpr, g: ScalarExpr) -> ScalarExpr:
        return (up - down) * (g.to(dtype) / count)

    result = b.pointwise(
        body,
        [
            by_other,
            b.reshape(by_class, (rows, classes)),
            _incoming(b, grad_output, rows, reduction),
        ],
        TensorType(self.dtype, x.shape),
    )
    return b.reshape(result, self.shape)
