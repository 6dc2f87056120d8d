"""Op records of pooling in two and three dimensions; PyTorch maps one dimension to two."""

from __future__ import annotations

import math

from ftm_backend.dtypes import FLOATS, INTS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import scatter_planes
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.sliding_windows import (
    SlidingWindow,
    max_pool_backward,
    padded_planes,
    plane_indices,
    pool_backward,
)
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded("aten::fractional_max_pool3d", tried=("always",))
recorded(
    "aten::max_pool2d_with_indices_backward aten::max_pool3d_with_indices_backward", may_fail=True
)


def place_found(value: ScalarExpr, best: ScalarExpr, index: ScalarExpr) -> ScalarExpr:
    """Return a number whose minimum over a window identifies the index of `best`.

    As in PyTorch, it is the first index, but the last one of NaN, encoded as a negative number.
    Decode with `first_place`.
    """
    hit = e.where(value.eq(best), index, e.highest(index.dtype))
    return e.where(e.isnan(value), index * -1 - 1, hit) if value.is_float else hit


def first_place(b: LinalgBuilder, found: StridedValue) -> StridedValue:
    """Decode the minimum of `place_found` to an index."""
    return b.pointwise(lambda p: e.where(p < 0, p * -1 - 1, p), [found])


def maximum_of_windows(
    b: LinalgBuilder, x: StridedValue, w: SlidingWindow
) -> tuple[StridedValue, StridedValue]:
    """Return the maxima and their indices, [planes, windows...].

    The indices have the narrowest type, because a gradient reads them repeatedly.
    """
    w, dtype = w.trimmed(), w.index_dtype
    padded, index, shape = padded_planes(b, x, w, e.lowest(x.dtype)), w.index(b), (w.planes, *w.out)
    (values,) = b.generic(
        w.loops,
        [LoopInput(padded, index)],
        [LoopOutput(x.dtype, shape, w.output_loops, e.lowest(x.dtype))],
        lambda v, best: e.maximum(best, v),
        reduced=w.tap_loops,
    )
    far = e.highest(dtype)
    # the border is never chosen
    indices = b.pad(plane_indices(b, w.size, dtype=dtype), w.padding, w.padding_high, far)
    (found,) = b.generic(
        w.loops,
        [
            LoopInput(padded, index),
            LoopInput(indices, index[1:]),
            LoopInput(values, w.output_loops),
        ],
        [LoopOutput(dtype, shape, w.output_loops, far)],
        lambda v, position, best, first: e.minimum(first, place_found(v, best, position)),
        reduced=w.tap_loops,
    )
    return values, first_place(b, found) if x.dtype in FLOATS else found


def average(
    b: LinalgBuilder, x: StridedValue, w: SlidingWindow, include_pad: bool, override: int | None
) -> StridedValue:
    """Return the means of windows, in the op's result type."""
    dtype, read = compute_dtype(x.dtype), w.trimmed()
    (total,) = b.generic(
        read.loops,
        [LoopInput(padded_planes(b, x, read, 0), read.index(b))],
        [LoopOutput(dtype, (w.planes, *w.out), w.output_loops, 0)],
        lambda v, carried: carried + v.to(dtype),
        reduced=w.tap_loops,
    )
    mean = _divided(b, total, _divisors(w, include_pad, override), dtype)
    return b.as_type(mean)


def average_backward(
    b: LinalgBuilder,
    grad_output: StridedValue,
    x: StridedValue,
    w: SlidingWindow,
    include_pad: bool,
    override: int | None,
) -> StridedValue:
    """Return the gradient of `average`."""
    dtype = compute_dtype(x.dtype)
    grad = b.reshape(grad_output, (w.planes, *w.out))
    share = _divided(b, grad, _divisors(w, include_pad, override), dtype)
    result = pool_backward(b, w.trimmed(), [(share, 0)], dtype, lambda g: g)
    return b.as_type(result, x.type)


def _divisors(w: SlidingWindow, include_pad: bool, override: int | None) -> list[list[int]] | int:
    """Return the divisor of average pooling.

    It is one number, or the extent of each window in each dimension.
    """
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
    """Divide x[planes, windows...] by the extents of its windows."""
    type_ = TensorType(dtype, x.shape)
    if isinstance(divisors, int):
        return b.pointwise(lambda v: v.to(dtype) / divisors, [x], type_)
    rows = [
        b.reshape(b.constant_vector(row, dtype), (len(row), *[1] * (len(divisors) - 1 - k)))
        for k, row in enumerate(divisors)
    ]

    def body(v: ScalarExpr, count: ScalarExpr, *rest: ScalarExpr) -> ScalarExpr:
        for extent in rest:
            count = count * extent
        return v.to(dtype) / count

    return b.pointwise(body, [x, *rows], type_)


def _records(dims: int) -> None:
    @lowering(f"aten::max_pool{dims}d_with_indices", FLOATS + INTS, "max_pool", EXACT)
    def max_forward(
        b: LinalgBuilder,
        self: StridedValue,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        dilation: list[int],
    ) -> tuple[StridedValue, StridedValue]:
        w = SlidingWindow(dims, self.shape, b.result.shape, kernel_size, stride, padding, dilation)
        values, positions = maximum_of_windows(b, self, w)
        chosen = b.cast(positions, "i64")
        b.pooled[chosen.base] = w, positions
        return b.reshape(values, b.result.shape), b.reshape(chosen, b.result.shape)

    @lowering(
        f"aten::max_pool{dims}d_with_indices_backward", (*FLOATS, "i64"), "max_pool_backward", SUMS
    )
    def max_backward(
        b: LinalgBuilder,
        grad_output: StridedValue,
        self: StridedValue,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        indices: StridedValue,
    ) -> StridedValue:
        w = SlidingWindow(
            dims, self.shape, grad_output.shape, kernel_size, stride, padding, dilation
        )
        dtype, recorded = compute_dtype(self.dtype), b.pooled.get(indices.base)
        if recorded is None or recorded[0] != w:  # indices may be outside of their windows
            count = math.prod(w.size)
            found = scatter_planes(b, grad_output, indices, w.planes, count, dtype, "add")
            return b.as_type(found, self.type)
        grad = b.reshape(grad_output, (w.planes, *w.out))
        result = max_pool_backward(b, w.trimmed(), grad, recorded[1], dtype)
        return b.as_type(result, self.type)

    @lowering(f"aten::avg_pool{dims}d", FLOATS + ("i64",), "avg_pool", SUMS)
    def avg_pool(
        b: LinalgBuilder,
        self: StridedValue,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
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
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> StridedValue:
        w = SlidingWindow(dims, self.shape, grad_output.shape, kernel_size, stride, padding, [1])
        return average_backward(b, grad_output, self, w, count_include_pad, divisor_override)


_records(2)
_records(3)
