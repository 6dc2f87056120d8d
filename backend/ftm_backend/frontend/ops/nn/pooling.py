"""Pooling by windows of two and three dimensions, with gradients; one dimension reaches us as
two."""

from __future__ import annotations

import math

from ftm_backend.dtypes import FLOATS, INTS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.index_scatter import inside, scatter_rows, typed
from ftm_backend.frontend.oplib.op_record import EXACT, SUMS, lowering
from ftm_backend.frontend.oplib.schema_annotations import recorded
from ftm_backend.frontend.oplib.sliding_windows import (
    SlidingWindow,
    gather_chosen,
    gather_windows,
    positions,
    windows,
)
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded("aten::fractional_max_pool3d", tried=("always",))
recorded(
    "aten::max_pool2d_with_indices_backward aten::max_pool3d_with_indices_backward", may_fail=True
)

__all__ = ["average", "average_backward", "first_place", "place_found"]


def place_found(value: ScalarExpr, best: ScalarExpr, place: ScalarExpr) -> ScalarExpr:
    """What to take the minimum of to find the place of ``best`` as PyTorch does: the first, but the
    last NaN."""
    hit = e.where(value.eq(best), place, e.highest(place.dtype))
    return e.where(e.isnan(value), place * -1 - 1, hit) if value.is_float else hit


def first_place(b: LinalgBuilder, found: StridedValue) -> StridedValue:
    """The place that such a minimum means."""
    return b.pointwise(lambda p: e.where(p < 0, p * -1 - 1, p), [found], found.type)


def maximum_of_windows(
    b: LinalgBuilder, x: StridedValue, w: SlidingWindow
) -> tuple[StridedValue, StridedValue]:
    """(maxima, their places) of shape [planes, windows...], places in a type that takes little
    memory: a gradient reads them repeatedly."""
    w, dtype = w.trimmed(), w.counted
    padded, index, shape = windows(b, x, w, e.lowest(x.dtype)), w.index(b), (w.planes, *w.out)
    (values,) = b.generic(
        w.loops,
        [LoopInput(padded, index)],
        [LoopOutput(x.dtype, shape, w.kept, e.lowest(x.dtype))],
        lambda v, best: e.maximum(best, v),
        reduced=w.inner,
    )
    far = e.highest(dtype)
    # the border is never chosen
    places = b.pad(positions(b, w.size, dtype=dtype), w.padding, w.high, far)
    (found,) = b.generic(
        w.loops,
        [LoopInput(padded, index), LoopInput(places, index[1:]), LoopInput(values, w.kept)],
        [LoopOutput(dtype, shape, w.kept, far)],
        lambda v, place, best, first: e.minimum(first, place_found(v, best, place)),
        reduced=w.inner,
    )
    return values, first_place(b, found) if x.dtype in FLOATS else found


def average(
    b: LinalgBuilder, x: StridedValue, w: SlidingWindow, include_pad: bool, override: int | None
) -> StridedValue:
    """Means of windows, of the op's result type."""
    dtype, read = compute_dtype(x.dtype), w.trimmed()
    (total,) = b.generic(
        read.loops,
        [LoopInput(windows(b, x, read, 0), read.index(b))],
        [LoopOutput(dtype, (w.planes, *w.out), w.kept, 0)],
        lambda v, carried: carried + v.to(dtype),
        reduced=w.inner,
    )
    mean = _divided(b, total, _divisors(w, include_pad, override), dtype)
    return b.cast(b.reshape(mean, b.result.shape), b.result.dtype)


def average_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    x: StridedValue,
    w: SlidingWindow,
    include_pad: bool,
    override: int | None,
) -> StridedValue:
    """Its gradient."""
    dtype = compute_dtype(x.dtype)
    grad = b.reshape(grad_output, (w.planes, *w.out))
    share = _divided(b, grad, _divisors(w, include_pad, override), dtype)
    made = gather_windows(b, w.trimmed(), [(share, 0)], dtype, lambda g: g)
    return b.cast(b.reshape(made, x.shape), x.dtype)


def _divisors(w: SlidingWindow, include_pad: bool, override: int | None) -> list[list[int]] | int:
    """What average pooling divides by: one number, or the extent of each window in each
    dimension."""
    if override is not None:
        return override
    extents: list[list[int]] = []
    for k in range(w.dims):
        row = []
        for o in range(w.out[k]):
            start = o * w.stride[k] - w.padding[k]
            end = min(start + w.kernel[k], w.size[k] + w.padding[k])
            row.append(end - start if include_pad else min(end, w.size[k]) - max(start, 0))
        extents.append(row)
    if all(len(set(row)) == 1 for row in extents):
        count = 1
        for row in extents:
            count *= row[0]
        return count
    return extents


def _divided(
    b: LinalgBuilder, x: StridedValue, divisors: list[list[int]] | int, dtype: str
) -> StridedValue:
    """x[planes, windows...] divided by the extents of its windows."""
    type_ = TensorType(dtype, x.shape)
    if isinstance(divisors, int):
        return b.pointwise(lambda v: v.to(dtype) / divisors, [x], type_)
    rows = [
        b.reshape(b.numbers(row, dtype), (len(row), *[1] * (len(divisors) - 1 - k)))
        for k, row in enumerate(divisors)
    ]

    def body(v: ScalarExpr, count: ScalarExpr, *rest: ScalarExpr) -> ScalarExpr:
        for extent in rest:
            count = count * extent
        return v.to(dtype) / count

    return b.pointwise(body, [x, *rows], type_)


def _scattered(
    b: LinalgBuilder, grad: StridedValue, places: StridedValue, w: SlidingWindow, dtype: str
) -> StridedValue:
    """Each gradient at its place of the plane: for places of which nobody knows that they lie in
    their windows."""
    extent = math.prod(w.size)
    count = grad.type.numel
    rows = b.pointwise(
        lambda place: inside(place, extent) + b.index(0) * extent,
        [places],
        typed("i64", places.shape),
    )
    made = scatter_rows(
        b,
        b.full(0, dtype, (w.planes * extent, 1)),
        b.reshape(rows, (count,)),
        b.reshape(b.cast(grad, dtype), (count, 1)),
        "add",
    )
    return b.reshape(made, (w.planes, *w.size))


def _records(dims: int) -> None:
    @lowering(f"aten::max_pool{dims}d_with_indices", FLOATS + INTS, "max_pool", EXACT)
    def max_pool(
        b: LinalgBuilder,
        self: StridedValue,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        ceil_mode: bool,
    ) -> tuple[StridedValue, StridedValue]:
        w = SlidingWindow(dims, self.shape, b.result.shape, kernel_size, stride, padding, dilation)
        values, places = maximum_of_windows(b, self, w)
        chosen = b.cast(places, "i64")
        b.pooled[chosen.base] = w, places
        return b.reshape(values, b.result.shape), b.reshape(chosen, b.result.shape)

    @lowering(
        f"aten::max_pool{dims}d_with_indices_backward", (*FLOATS, "i64"), "max_pool_backward", SUMS
    )
    def max_pool_backward(
        b: LinalgBuilder,
        grad_output: StridedValue,
        self: StridedValue,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        ceil_mode: bool,
        indices: StridedValue,
    ) -> StridedValue:
        w = SlidingWindow(
            dims, self.shape, grad_output.shape, kernel_size, stride, padding, dilation
        )
        dtype, shape = compute_dtype(self.dtype), (w.planes, *w.out)
        grad = b.reshape(grad_output, shape)
        windows, places = b.pooled.get(indices.base, (None, None))
        if windows != w:
            return b.cast(
                b.reshape(_scattered(b, grad, b.reshape(indices, shape), w, dtype), self.shape),
                self.dtype,
            )

        made = gather_chosen(b, w.trimmed(), grad, places, dtype)
        return b.cast(b.reshape(made, self.shape), self.dtype)

    @lowering(f"aten::avg_pool{dims}d", FLOATS + ("i64",), "avg_pool", SUMS)
    def avg_pool(
        b: LinalgBuilder,
        self: StridedValue,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> StridedValue:
        w = SlidingWindow(dims, self.shape, b.result.shape, kernel_size, stride, padding, [1])
        return average(b, self, w, count_include_pad, divisor_override)

    @lowering(f"aten::avg_pool{dims}d_backward", FLOATS, "avg_pool_backward", SUMS)
    def avg_pool_backward(
        b: LinalgBuilder,
        grad_output: StridedValue,
        self: StridedValue,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> StridedValue:
        w = SlidingWindow(dims, self.shape, grad_output.shape, kernel_size, stride, padding, [1])
        return average_backward(b, grad_output, self, w, count_include_pad, divisor_override)


_records(2)
_records(3)
