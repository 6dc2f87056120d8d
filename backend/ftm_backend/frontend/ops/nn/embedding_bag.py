"""Op records of embedding bags: sums, means and maxima over bags of rows, and gradients."""

from __future__ import annotations

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import (
    OUT_OF_BOUNDS,
    checked_index,
    scatter_rows,
    tensor_type,
)
from ftm_backend.frontend.oplib.binary_search import count_before
from ftm_backend.frontend.oplib.op_registry import SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import sum_of
from ftm_backend.frontend.ops.nn.embedding import frequencies
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded(
    "aten::_embedding_bag aten::_embedding_bag_forward_only",
    may_fail=True,
    ranks=(2, 1, 1),
    asks_cpu="always",
    counts_bags=True,
)
recorded(
    "aten::_embedding_bag_dense_backward aten::_embedding_bag_per_sample_weights_backward",
    may_fail=True,
)

_BAGS = ("f32", "f64", "f16", "bf16", "i64", "i32")
_SUM, _MEAN, _MAX = 0, 1, 2


def _bag_of(b: LinalgBuilder, count: int, offsets: StridedValue, bags: int) -> StridedValue:
    """Return the bag of each of `count` indices, i64 [count]: the last one that begins by then."""
    begins = offsets

    def body() -> ScalarExpr:
        position = b.index(0)

        def begin(index: ScalarExpr) -> ScalarExpr:
            return b.extract(begins, [index]).to("i64")

        bag = count_before(b, bags, begin, position, right=True) - 1
        # PyTorch requires that the first bag begins at 0 and no bag begins after the end
        last = b.constant(offsets.shape[0] - 1, "i64")
        right = begin(b.constant(0, "i64")).eq(0) & (begin(last) <= count)
        return e.where(right & (bag >= 0), bag, OUT_OF_BOUNDS)

    return b.generic((count,), [], [LoopOutput("i64", (count,), [0])], body)[0]


def _bag_sizes(
    b: LinalgBuilder, bag: StridedValue, indices: StridedValue, bags: int, padding_idx: int
) -> StridedValue:
    """Count the indices of each bag without padding, as i64 [bags, 1]."""
    count = indices.type.numel
    ones = b.full(1, "i64", (count, 1))
    if padding_idx >= 0:
        ones = b.pointwise(
            lambda i: i.ne(padding_idx),
            [b.reshape(indices, (count, 1))],
            tensor_type("i64", (count, 1)),
        )
    return scatter_rows(b, b.full(0, "i64", (bags, 1)), bag, ones, "add")


@lowering("aten::_embedding_bag aten::_embedding_bag_forward_only", _BAGS, "embedding_bag", SUMS)
def _embedding_bag(
    b: LinalgBuilder,
    weight: StridedValue,
    indices: StridedValue,
    offsets: StridedValue,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    per_sample_weights: StridedValue | None = None,
    padding_idx: int = -1,
) -> tuple[StridedValue, ...]:
    """Return the result, the bag of each index, bag sizes, and the row of each maximum."""
    count, (entries, width), (bags, _) = indices.type.numel, weight.shape, b.result.shape
    dtype, table = compute_dtype(weight.dtype), weight
    bag = _bag_of(b, count, offsets, bags) if count and bags else b.full(0, "i64", (count,))
    column = b.reshape(indices, (count, 1))
    identity = e.lowest(dtype) if mode == _MAX else 0

    def row(index: ScalarExpr, *scale: ScalarExpr) -> ScalarExpr:
        value = b.extract(table, [checked_index(index, entries), b.index(1)]).to(dtype)
        value = value * scale[0].to(dtype) if scale else value
        return e.where(index.eq(padding_idx), identity, value) if padding_idx >= 0 else value

    scales = [] if per_sample_weights is None else [b.reshape(per_sample_weights, (count, 1))]
    rows = b.pointwise(
        row, [column.expand((count, width)), *scales], tensor_type(dtype, (count, width))
    )
    total = scatter_rows(
        b, b.full(identity, dtype, (bags, width)), bag, rows, "max" if mode == _MAX else "add"
    )
    sizes = _bag_sizes(b, bag, indices, bags, padding_idx)
    result = total
    if mode == _MEAN:
        result = b.pointwise(lambda t, n: t / e.maximum(n, 1).to(dtype), [total, sizes])
    elif mode == _MAX:
        result = b.pointwise(lambda t, n: e.where(n.eq(0), 0, t), [total, sizes])
    # PyTorch's kernel omits the sizes for sums
    reported_sizes = b.reshape(sizes, (bags,)) if mode != _SUM else b.full(0, "i64", (bags,))
    return (
        b.cast(result, weight.dtype),
        _like(b, b.reshape(bag, (count,)), 1),
        _like(b, reported_sizes, 2),
        _max_rows(b, rows, total, bag, column)
        if mode == _MAX and count
        else _like(b, reported_sizes, 3),
    )


def _like(b: LinalgBuilder, x: StridedValue, number: int) -> StridedValue:
    """Convert `x` to the type of result `number`, which may be longer or empty."""
    result_type = b.result_type(number)
    x = b.cast(x, result_type.dtype)
    if x.shape == result_type.shape:
        return x
    zeros = b.full(0, result_type.dtype, result_type.shape)
    if len(result_type.shape) != 1 or result_type.shape[0] < x.shape[0]:
        return zeros
    return b.pad(x, [0], [result_type.shape[0] - x.shape[0]], 0)


def _max_rows(
    b: LinalgBuilder,
    rows: StridedValue,
    total: StridedValue,
    bag: StridedValue,
    column: StridedValue,
) -> StridedValue:
    """Return the table row of each maximum, of the first index that has it; 0 for an empty bag."""
    count, best = rows.shape[0], total

    def position(value: ScalarExpr, bag_index: ScalarExpr) -> ScalarExpr:
        most = b.extract(best, [checked_index(bag_index, total.shape[0]), b.index(1)])
        return e.where(
            value.eq(most) | e.isnan(value) if value.is_float else value.eq(most), b.index(0), count
        )

    indices = b.pointwise(position, [rows, b.reshape(bag, (count, 1))])
    first = scatter_rows(b, b.full(count, "i64", total.shape), bag, indices, "min")
    flat = b.reshape(column, (count,))

    def index(at: ScalarExpr) -> ScalarExpr:
        return e.where(at.eq(count), 0, b.extract(flat, [e.where(at.eq(count), 0, at)]).to("i64"))

    found = b.pointwise(index, [first])
    result_type = b.result_type(3)
    return (
        b.cast(found, result_type.dtype)
        if result_type.shape == found.shape
        else b.full(0, result_type.dtype, result_type.shape)
    )


@lowering("aten::_embedding_bag_dense_backward", _BAGS, "embedding_bag_backward", SUMS)
def _dense_backward(
    b: LinalgBuilder,
    grad: StridedValue,
    indices: StridedValue,
    offset2bag: StridedValue,
    bag_size: StridedValue,
    maximum_indices: StridedValue,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: StridedValue | None,
    padding_idx: int = -1,
) -> StridedValue:
    dtype, count, (bags, width) = compute_dtype(grad.dtype), indices.type.numel, grad.shape
    zeros = b.full(0, dtype, (num_weights, width))
    if mode == _MAX:
        return b.cast(
            _max_backward(b, zeros, b.cast(grad, dtype), maximum_indices, bag_size), grad.dtype
        )
    if not count or not bags:
        return b.cast(zeros, grad.dtype)
    source, sizes = grad, bag_size
    column, bag_indices = b.reshape(indices, (count, 1)), b.reshape(offset2bag, (count, 1))
    rows = b.cast(b.reshape(indices, (count,)), "i64")
    counts = frequencies(b, rows, num_weights) if scale_grad_by_freq else None
    scales = [] if per_sample_weights is None else [b.reshape(per_sample_weights, (count, 1))]

    def update(index: ScalarExpr, bag_index: ScalarExpr, *scale: ScalarExpr) -> ScalarExpr:
        bag_index = checked_index(bag_index, bags)
        value = b.extract(source, [bag_index, b.index(1)]).to(dtype)
        if mode == _MEAN:
            value = value / e.maximum(b.extract(sizes, [bag_index]).to("i64"), 1).to(dtype)
        if counts is not None:
            value = value / b.extract(
                counts, [checked_index(index, num_weights), b.index(1) * 0]
            ).to(dtype)
        value = value * scale[0].to(dtype) if scale else value
        return e.where(index.eq(padding_idx), 0, value) if padding_idx >= 0 else value

    updates = b.pointwise(
        update,
        [column.expand((count, width)), bag_indices, *scales],
        tensor_type(dtype, (count, width)),
    )
    return b.cast(scatter_rows(b, zeros, rows, updates, "add"), grad.dtype)


def _max_backward(
    b: LinalgBuilder,
    zeros: StridedValue,
    grad: StridedValue,
    maximum_indices: StridedValue,
    bag_size: StridedValue,
) -> StridedValue:
    """Add each element of the gradient to the row of its maximum."""
    (bags, width), entries = grad.shape, zeros.shape[0]
    if not bags or not width:
        return zeros
    sizes = b.reshape(bag_size.slice(0, 0, bags), (bags, 1))
    indices = b.pointwise(
        lambda i: checked_index(i, entries) * width + b.index(1),
        [maximum_indices],
        tensor_type("i64", grad.shape),
    )
    updates = b.pointwise(lambda g, n: e.where(n > 0, g, 0), [grad, sizes])
    result = scatter_rows(
        b,
        b.reshape(zeros, (entries * width, 1)),
        b.reshape(indices, (bags * width,)),
        b.reshape(updates, (bags * width, 1)),
        "add",
    )
    return b.reshape(result, zeros.shape)


@lowering(
    "aten::_embedding_bag_per_sample_weights_backward",
    FLOATS + ("i64", "i32"),
    "embedding_bag_weights",
    SUMS,
)
def _weights_backward(
    b: LinalgBuilder,
    grad: StridedValue,
    weight: StridedValue,
    indices: StridedValue,
    offsets: StridedValue,
    offset2bag: StridedValue,
    mode: int,
    padding_idx: int = -1,
) -> StridedValue:
    """Return the dot product of each index's row with the gradient of its bag."""
    dtype, count, (bags, width) = compute_dtype(grad.dtype), indices.type.numel, grad.shape
    if not count:
        return b.full(0, grad.dtype, b.result.shape)
    source, table = grad, weight
    bag_indices = offset2bag if offset2bag.type.numel == count else _bag_of(b, count, offsets, bags)
    bag_indices = b.reshape(bag_indices, (count, 1))
    products = b.pointwise(
        lambda index, bag_index: (
            b.extract(source, [checked_index(bag_index, bags), b.index(1)]).to(dtype)
            * e.where(
                index.eq(padding_idx),
                0,
                b.extract(table, [checked_index(index, weight.shape[0]), b.index(1)]).to(dtype),
            )
        ),
        [b.reshape(indices, (count, 1)).expand((count, width)), bag_indices],
        tensor_type(dtype, (count, width)),
    )
    return b.cast(b.reshape(sum_of(b, products, (1,)), b.result.shape), grad.dtype)
