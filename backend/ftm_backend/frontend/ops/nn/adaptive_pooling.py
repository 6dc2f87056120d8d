"""Op records of pooling with irregular windows (adaptive, fractional), and of unpooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ftm_backend.dtypes import FLOATS, NUMBERS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import scatter_planes
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, Lower, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.resampling import Taps, resample_dims, transpose_taps
from ftm_backend.frontend.oplib.sliding_windows import SlidingWindow
from ftm_backend.frontend.ops.nn.pooling import (
    average,
    average_backward,
    first_place,
    maximum_of_windows,
    place_found,
)
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.trace.trace import TensorType

recorded("aten::adaptive_max_pool2d_backward aten::adaptive_max_pool3d_backward", may_fail=True)
recorded("aten::fractional_max_pool2d_backward aten::fractional_max_pool3d_backward", may_fail=True)
recorded("aten::max_unpool2d", may_fail=True, like=0)
recorded("aten::max_unpool3d", may_fail=True)


def _range(o: int, size: int, out: int) -> range:
    """Return the positions in window `o` of an adaptive pooling."""
    return range(o * size // out, -(-(o + 1) * size // out))


def _even(dims: int, shape: Sequence[int], out: Sequence[int]) -> SlidingWindow | None:
    """Return the equivalent regular pooling if all extents divide, else None."""
    if any(o == 0 or n == 0 or n % o for n, o in zip(shape[-dims:], out[-dims:], strict=True)):
        return None
    steps = [n // o for n, o in zip(shape[-dims:], out[-dims:], strict=True)]
    return SlidingWindow(dims, shape, out, steps, steps, [0], [1])


def _averages(size: int, out: int) -> Taps:
    return [
        [(index, 1.0 / len(_range(o, size, out))) for index in _range(o, size, out)]
        for o in range(out)
    ]


def _places_backward(dims: int) -> Lower:
    """Return a lowering that adds gradients at the indices of the maxima."""

    def lower(
        b: LinalgBuilder,
        grad_output: StridedValue,
        self: StridedValue,
        indices: StridedValue,
        kernel_size: list[int] | None = None,
        output_size: list[int] | None = None,
    ) -> StridedValue:
        count = math.prod(self.shape[-dims:])
        planes, dtype = self.type.numel // max(1, count), compute_dtype(self.dtype)
        result = scatter_planes(b, grad_output, indices, planes, count, dtype, "add")
        return b.as_type(result, self.type)

    return lower


def _maximum(
    b: LinalgBuilder,
    planes: StridedValue,
    out: Sequence[int],
    kernel: Sequence[int],
    tables: Sequence[tuple[StridedValue, list[int]]],
    position: Callable[[Sequence[ScalarExpr], Sequence[ScalarExpr]], list[ScalarExpr]],
) -> tuple[StridedValue, StridedValue]:
    """Return the maxima of windows, and their indices in the planes.

    Args:
        b: The builder.
        planes: [P, size...].
        out: Number of windows by dimension.
        kernel: Extents of the largest window.
        tables: Pairs of a tensor and its index over the loops plane, window, tap.
        position: From the tables' ScalarExprs and the tap's coordinates to those of the element.
    """
    dims, source = len(out), planes
    strides, shape = row_major(planes.shape[1:]), (planes.shape[0], *out)
    loops, kept, inner = (*shape, *kernel), range(1 + dims), range(1 + dims, 1 + 2 * dims)
    reading = [LoopInput(value, index) for value, index in tables]

    def where(args: Sequence[ScalarExpr]) -> list[ScalarExpr]:
        return position(args[: len(reading)], [b.index(k) for k in inner])

    (values,) = b.generic(
        loops,
        reading,
        [LoopOutput(planes.dtype, shape, kept, e.lowest(planes.dtype))],
        lambda *args: e.maximum(args[-1], b.extract(source, [b.index(0), *where(args)])),
        reduced=inner,
    )

    def find(*args: ScalarExpr) -> ScalarExpr:
        at = where(args)
        terms = [i * s for i, s in zip(at, strides, strict=True)]
        number = sum(terms[1:], terms[0])
        return e.minimum(
            args[-1], place_found(b.extract(source, [b.index(0), *at]), args[-2], number)
        )

    (found,) = b.generic(
        loops,
        [*reading, LoopInput(values, kept)],
        [LoopOutput("i64", shape, kept, e.highest("i64"))],
        find,
        reduced=inner,
    )
    return values, first_place(b, found)


def _adaptive_max(
    b: LinalgBuilder, x: StridedValue, dims: int
) -> tuple[StridedValue, StridedValue]:
    out = b.result.shape
    even = _even(dims, x.shape, out)
    if even is not None:
        values, indices = maximum_of_windows(b, x, even)
        return values, b.cast(indices, "i64")
    size = x.shape[-dims:]
    ranges = [[_range(o, n, m) for o in range(m)] for n, m in zip(size, out[-dims:], strict=True)]
    kernel = [max(map(len, row), default=0) for row in ranges]
    # smaller windows repeat their last position, which changes neither maximum nor index
    tables = [
        (
            b.reshape(
                b.constant_vector(
                    [r[min(k, len(r) - 1)] for r in row for k in range(extent)], "i64"
                ),
                (len(row), extent),
            ),
            [1 + k, 1 + dims + k],
        )
        for k, (row, extent) in enumerate(zip(ranges, kernel, strict=True))
    ]
    planes = b.reshape(x, (math.prod(x.shape[:-dims]), *size))
    return _maximum(b, planes, out[-dims:], kernel, tables, lambda found, inner: list(found))


def _fractional(
    b: LinalgBuilder,
    x: StridedValue,
    dims: int,
    kernel: list[int],
    output_size: list[int],
    samples: StridedValue,
) -> tuple[StridedValue, StridedValue]:
    """Pool windows that start at positions given by random samples [N, C, dims], per plane."""
    size = x.shape[-dims:]
    count = math.prod(x.shape[:-dims])
    kernel = kernel * dims if len(kernel) == 1 else kernel
    output_size = output_size * dims if len(output_size) == 1 else output_size
    drawn = b.reshape(samples, (count, dims))
    dtype = compute_dtype(x.dtype)
    tables = []
    for k, (n, m, extent) in enumerate(zip(size, output_size, kernel, strict=True)):
        # PyTorch orders the samples as (width, height), but (depth, height, width)
        column = drawn.slice(1, 1 - k if dims == 2 else k, 1).expand((count, m))

        def start(sample: ScalarExpr, n: int = n, m: int = m, extent: int = extent) -> ScalarExpr:
            if m == 1:
                return sample.to("i64") * 0 + (n - extent)
            alpha = sample.to(dtype).const(n - extent) / (m - 1)
            index = ((b.index(1).to(dtype) + sample.to(dtype)) * alpha).to("i64") - (
                sample.to(dtype) * alpha
            ).to("i64")
            return e.where(b.index(1).eq(m - 1), n - extent, index)

        tables.append((b.pointwise(start, [column], TensorType("i64", (count, m))), [0, 1 + k]))
    planes = b.reshape(x, (count, *size))
    return _maximum(
        b,
        planes,
        output_size,
        kernel,
        tables,
        lambda starts, inner: [s + k for s, k in zip(starts, inner, strict=True)],
    )


def _shaped(
    b: LinalgBuilder, result: tuple[StridedValue, StridedValue]
) -> tuple[StridedValue, StridedValue]:
    return b.reshape(result[0], b.result.shape), b.reshape(result[1], b.result.shape)


def _records(dims: int) -> None:
    @lowering(f"aten::_adaptive_avg_pool{dims}d", FLOATS, "adaptive_pool", SUMS)
    def avg(b: LinalgBuilder, self: StridedValue, output_size: list[int]) -> StridedValue:
        even = _even(dims, self.shape, b.result.shape)
        if even is not None:
            return average(b, self, even, True, None)
        tables = [
            _averages(n, m) for n, m in zip(self.shape[-dims:], b.result.shape[-dims:], strict=True)
        ]
        return b.cast(resample_dims(b, self, tables, compute_dtype(self.dtype)), self.dtype)

    @lowering(f"aten::_adaptive_avg_pool{dims}d_backward", FLOATS, "adaptive_pool_backward", SUMS)
    def avg_backward(
        b: LinalgBuilder, grad_output: StridedValue, self: StridedValue
    ) -> StridedValue:
        even = _even(dims, self.shape, grad_output.shape)
        if even is not None:
            return average_backward(b, grad_output, self, even, True, None)
        tables = [
            transpose_taps(_averages(n, m), n)
            for n, m in zip(self.shape[-dims:], grad_output.shape[-dims:], strict=True)
        ]
        return b.cast(resample_dims(b, grad_output, tables, compute_dtype(self.dtype)), self.dtype)

    @lowering(f"aten::adaptive_max_pool{dims}d", FLOATS, "adaptive_pool", EXACT)
    def maximum(
        b: LinalgBuilder, self: StridedValue, output_size: list[int]
    ) -> tuple[StridedValue, StridedValue]:
        return _shaped(b, _adaptive_max(b, self, dims))

    @lowering(f"aten::fractional_max_pool{dims}d", FLOATS, "fractional_pool", EXACT)
    def fractional(
        b: LinalgBuilder,
        self: StridedValue,
        kernel_size: list[int],
        output_size: list[int],
        random_samples: StridedValue,
    ) -> tuple[StridedValue, StridedValue]:
        return _shaped(b, _fractional(b, self, dims, kernel_size, output_size, random_samples))

    lowering(
        f"aten::adaptive_max_pool{dims}d_backward", (*FLOATS, "i64"), "adaptive_pool_backward", SUMS
    )(_places_backward(dims))
    lowering(
        f"aten::fractional_max_pool{dims}d_backward",
        (*FLOATS, "i64"),
        "fractional_pool_backward",
        SUMS,
    )(_places_backward(dims))

    @lowering(f"aten::max_unpool{dims}d", NUMBERS, "max_unpool", EXACT)
    def unpool(
        b: LinalgBuilder,
        self: StridedValue,
        indices: StridedValue,
        output_size: list[int],
        stride: StridedValue | None = None,
        padding: StridedValue | None = None,
    ) -> StridedValue:
        count = math.prod(output_size)
        planes = math.prod(self.shape[:-dims])
        result = scatter_planes(b, self, indices, planes, count, self.dtype, "set")
        return b.reshape(result, b.result.shape)


_records(2)
_records(3)
