"""Op records of im2col (unfold) and col2im (fold)."""

from __future__ import annotations

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend.linalg_builder import (
    LinalgBuilder,
    LoopInput,
    LoopOutput,
    OperandDim,
    StridedValue,
)
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, lowering
from ftm_backend.frontend.oplib.sliding_windows import SlidingWindow, padded_planes
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_view import Strided


def _window_counts(
    size: list[int], kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> list[int]:
    """Return the number of windows in each dimension."""
    return [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    ]


@lowering("aten::im2col", (*FLOATS, "i1"), "fold", EXACT)
def _im2col(
    b: LinalgBuilder,
    self: StridedValue,
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> StridedValue:
    size = list(self.shape[-2:])
    out = _window_counts(size, kernel_size, dilation, padding, stride)
    w = SlidingWindow(2, self.shape, out, kernel_size, stride, padding, dilation)
    # loops in the result's order: plane, tap, window
    index: list[int | OperandDim] = [
        0,
        *(b.dim(3 + k) * stride[k] + b.dim(1 + k) * dilation[k] for k in range(2)),
    ]
    loops = (w.planes, *kernel_size, *out)
    (result,) = b.generic(
        loops,
        [LoopInput(padded_planes(b, self, w, 0), index)],
        [LoopOutput(self.dtype, loops, range(5))],
        lambda v: v,
    )
    return b.reshape(result, b.result.shape)


@lowering("aten::col2im", (*FLOATS, "i1"), "fold", SUMS)
def _col2im(
    b: LinalgBuilder,
    self: StridedValue,
    output_size: list[int],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> StridedValue:
    out = _window_counts(output_size, kernel_size, dilation, padding, stride)
    batch = self.shape[0] if self.rank == 3 else 1
    planes = batch * (self.shape[-2] // (kernel_size[0] * kernel_size[1]))
    columns = b.reshape(self, (planes, *kernel_size, *out))
    # With the windows spread `stride` apart, tap k of the window at i + padding - k * dilation
    # contributes to element i. Some of these are outside or between windows, where the value is 0.
    shape = (planes, *kernel_size, *((n - 1) * s + 1 for n, s in zip(out, stride, strict=True)))
    strides = row_major(shape)
    steps = (*strides[:3], *(t * s for t, s in zip(strides[3:], stride, strict=True)))
    spread = b.update(b.full(0, self.dtype, shape), columns, Strided(columns.shape, steps))
    low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel_size, padding, strict=True)]
    high = [n + p - m for n, p, m in zip(output_size, padding, shape[3:], strict=True)]
    padded = b.pad(spread, [0, 0, 0, *low], [0, 0, 0, *high], 0)
    dtype = "i1" if self.dtype == "i1" else compute_dtype(self.dtype)
    index: list[int | OperandDim] = [
        0,
        3,
        4,
        *(
            b.dim(1 + k) + b.dim(3 + k) * -dilation[k] + dilation[k] * (kernel_size[k] - 1)
            for k in range(2)
        ),
    ]
    (result,) = b.generic(
        (planes, *output_size, *kernel_size),
        [LoopInput(padded, index)],
        [LoopOutput(dtype, (planes, *output_size), range(3), 0)],
        lambda v, carried: carried + v.to(dtype),
        reduced=(3, 4),
    )
    return b.cast(b.reshape(result, b.result.shape), self.dtype)
