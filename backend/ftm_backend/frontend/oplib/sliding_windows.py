"""Sliding windows over the last dimensions of a tensor: geometry, reading, and gradients."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import (
    LinalgBuilder,
    LoopInput,
    LoopOutput,
    OperandDim,
    StridedValue,
)
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.ir.linalg.strided_view import Strided


class SlidingWindow:
    """Geometry of windows over x[..., spatial dimensions].

    Attributes:
        dims: Number of spatial dimensions.
        size: Their extents.
        out: Number of windows in each of them.
        planes: Number of x's other elements; all planes have the same windows.
        kernel: Extents of a window.
        stride: Distances of windows.
        padding: Elements added before each dimension.
        dilation: Distances of taps.
    """

    def __init__(
        self,
        dims: int,
        x_shape: Sequence[int],
        out_shape: Sequence[int],
        kernel: list[int],
        stride: list[int],
        padding: list[int],
        dilation: list[int],
    ) -> None:
        """Create the geometry; a list with one entry applies to all dimensions."""
        self.dims = dims
        self.kernel = self._spread(kernel)
        self.stride = self._spread(stride) or self.kernel
        self.padding, self.dilation = self._spread(padding), self._spread(dilation)
        self.size, self.out = tuple(x_shape[-dims:]), tuple(out_shape[-dims:])
        self.planes = math.prod(x_shape[:-dims])

    def __eq__(self, other: object) -> bool:
        """Compare all attributes."""
        return isinstance(other, SlidingWindow) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def trimmed(self) -> SlidingWindow:
        """Return the windows without taps that are beyond the end of x in all of them.

        There are such taps if a window is larger than x.
        """
        result = copy.copy(self)
        result.kernel = [
            min(k, max(-(-(n + p) // d), 1))
            for k, n, p, d in zip(self.kernel, self.size, self.padding, self.dilation, strict=True)
        ]
        return result

    def _spread(self, values: list[int]) -> list[int]:
        return values * self.dims if len(values) == 1 else values

    @property
    def index_dtype(self) -> str:
        """Narrowest integer type for indices into a plane, rounded up to blocks of `stride`."""
        return (
            "i32"
            if math.prod(n + s for n, s in zip(self.size, self.stride, strict=True))
            <= e.highest("i32")
            else "i64"
        )

    @property
    def padding_high(self) -> list[int]:
        """Padding after each dimension for the last windows; negative if they leave elements."""
        return [
            (o - 1) * s + d * (k - 1) + 1 - n - p
            for o, s, d, k, n, p in zip(
                self.out,
                self.stride,
                self.dilation,
                self.kernel,
                self.size,
                self.padding,
                strict=True,
            )
        ]

    @property
    def partitions_input(self) -> bool:
        """Whether the windows partition the input: adjacent, without overlap or padding."""
        return all(
            s == k and d == 1 and p == 0 and n == o * k
            for s, k, d, p, n, o in zip(
                self.stride,
                self.kernel,
                self.dilation,
                self.padding,
                self.size,
                self.out,
                strict=True,
            )
        )

    @property
    def loops(self) -> tuple[int, ...]:
        """Extents of a reduction's loops: plane, windows, taps."""
        return (self.planes, *self.out, *self.kernel)

    @property
    def output_loops(self) -> range:
        """The loops over planes and windows."""
        return range(1 + self.dims)

    @property
    def tap_loops(self) -> range:
        """The loops over taps."""
        return range(1 + self.dims, 1 + 2 * self.dims)

    def index(self, b: LinalgBuilder) -> list[int | OperandDim]:
        """Return the index into the padded planes for `loops`."""
        return [
            0,
            *(
                b.dim(1 + k) * self.stride[k] + b.dim(1 + self.dims + k) * self.dilation[k]
                for k in range(self.dims)
            ),
        ]


def padded_planes(
    b: LinalgBuilder, x: StridedValue, w: SlidingWindow, fill: Number
) -> StridedValue:
    """Return x as padded planes that `SlidingWindow.index` reads."""
    return b.pad(b.reshape(x, (w.planes, *w.size)), [0, *w.padding], [0, *w.padding_high], fill)


def plane_indices(
    b: LinalgBuilder, size: Sequence[int], covered: Sequence[int] | None = None, dtype: str = "i64"
) -> StridedValue:
    """Return integers of shape `size`: the index of each element in its plane.

    Reading them through the windows saves index arithmetic for each window.

    Args:
        b: The builder.
        size: The plane's extents.
        covered: The result's extents if larger than the plane; values outside are arbitrary.
        dtype: The result's dtype.
    """
    strides = row_major(size)
    size = size if covered is None else covered

    def number() -> ScalarExpr:
        terms = [b.index(k) * s for k, s in enumerate(strides)]
        return sum(terms[1:], terms[0])

    return b.generic(size, [], [LoopOutput(dtype, tuple(size), range(len(size)))], number)[0]


def pool_backward(
    b: LinalgBuilder,
    w: SlidingWindow,
    inputs: list[tuple[StridedValue, float]],
    dtype: str,
    element: Callable[..., ScalarExpr],
    numbered: str = "",
) -> StridedValue:
    """Return the gradient of a pooling: by input element, the sum over the windows that contain it.

    Windows that partition the input need no sum.

    Args:
        b: The builder.
        w: The windows.
        inputs: Pairs of a tensor [planes, windows...] and the value to read where no window is.
        dtype: The result's dtype.
        element: From the inputs' ScalarExprs to the summand. With `numbered`, it also gets the
            index of the input element in its plane.
        numbered: Dtype of that index, or "".
    """
    dims = w.dims
    if w.partitions_input:
        loops = (w.planes, *(n for pair in zip(w.out, w.kernel, strict=True) for n in pair))
        reading = [LoopInput(x, [0, *range(1, 2 * dims, 2)]) for x, _ in inputs]
        if numbered:
            reading.append(
                LoopInput(
                    b.reshape(plane_indices(b, w.size, dtype=numbered), loops[1:]),
                    range(1, 1 + 2 * dims),
                )
            )
        (result,) = b.generic(
            loops, reading, [LoopOutput(dtype, loops, range(1 + 2 * dims))], element
        )
        return b.reshape(result, (w.planes, *w.size))
    reading = []
    index: list[int | OperandDim] = [
        0,
        *(b.dim(1 + k) + b.dim(1 + dims + k) * w.dilation[k] for k in range(dims)),
    ]
    for x, missing in inputs:
        # Tap k of window o reads input element i if o * stride = i + padding - k * dilation. With k
        # counted backwards, this is a stride-1 window over the windows spread `stride` apart.
        shape = (
            w.planes,
            *((n - 1) * s + 1 if n else 0 for n, s in zip(w.out, w.stride, strict=True)),
        )
        strides = row_major(shape)
        steps = (strides[0], *(t * s for t, s in zip(strides[1:], w.stride, strict=True)))
        spread = b.update(b.full(missing, x.dtype, shape), x, Strided(x.shape, steps))
        low = [
            0,
            *(d * (k - 1) - p for d, k, p in zip(w.dilation, w.kernel, w.padding, strict=True)),
        ]
        high = [0, *(n + p - m for n, p, m in zip(w.size, w.padding, shape[1:], strict=True))]
        reading.append(LoopInput(b.pad(spread, low, high, missing), index))
    if numbered:
        reading.append(LoopInput(plane_indices(b, w.size, dtype=numbered), range(1, 1 + dims)))

    def body(*args: ScalarExpr) -> ScalarExpr:
        *elems, carried = args
        return carried + element(*elems)

    out = LoopOutput(dtype, (w.planes, *w.size), range(1 + dims), 0)
    (result,) = b.generic(
        (w.planes, *w.size, *w.kernel), reading, [out], body, reduced=range(1 + dims, 1 + 2 * dims)
    )
    return result


def max_pool_backward(
    b: LinalgBuilder, w: SlidingWindow, grad: StridedValue, indices: StridedValue, dtype: str
) -> StridedValue:
    """Return the gradient of a max pooling: by input element, the sum over windows that chose it.

    Blocks of ``stride`` neighbouring elements read all windows that contain one of them, and select
    by the chosen index.

    Args:
        b: The builder.
        w: The windows.
        grad: Gradients [planes, windows...].
        indices: The chosen index of each window in its plane, in the same shape.
        dtype: The result's dtype.
    """
    if w.partitions_input or any(d != 1 for d in w.dilation):

        def element(g: ScalarExpr, chosen: ScalarExpr, position: ScalarExpr) -> ScalarExpr:
            return e.where(chosen.eq(position), g.to(dtype), 0)

        return pool_backward(
            b, w, [(grad, 0), (indices, -1)], dtype, element, numbered=indices.dtype
        )
    dims = w.dims
    # Window o contains element i if 0 <= i + padding - o * stride < kernel: for i = a * stride + r,
    # the windows from a + first to a + last.
    first = [-((k - 1 - p) // s) for k, p, s in zip(w.kernel, w.padding, w.stride, strict=True)]
    last = [(s - 1 + p) // s for p, s in zip(w.padding, w.stride, strict=True)]
    blocks = [-(-n // s) for n, s in zip(w.size, w.stride, strict=True)]
    kept = (w.planes, *(n for pair in zip(blocks, w.stride, strict=True) for n in pair))
    loops = (*kept, *(high - low + 1 for low, high in zip(first, last, strict=True)))
    index: list[int | OperandDim] = [
        0,
        *(b.dim(1 + 2 * k) + b.dim(1 + 2 * dims + k) for k in range(dims)),
    ]
    low = [0, *(-at for at in first)]
    high = [0, *(a - 1 + at - (o - 1) for a, at, o in zip(blocks, last, w.out, strict=True))]
    covered = [a * s for a, s in zip(blocks, w.stride, strict=True)]
    numbers = b.reshape(plane_indices(b, w.size, covered, indices.dtype), kept[1:])
    # beyond the windows, the gradient is 0 and the index arbitrary
    reading = [LoopInput(b.pad(x, low, high, 0), index) for x in (grad, indices)]

    def body(
        g: ScalarExpr, chosen: ScalarExpr, position: ScalarExpr, carried: ScalarExpr
    ) -> ScalarExpr:
        return carried + e.where(chosen.eq(position), g.to(dtype), 0)

    (result,) = b.generic(
        loops,
        [*reading, LoopInput(numbers, range(1, 1 + 2 * dims))],
        [LoopOutput(dtype, kept, range(1 + 2 * dims), 0)],
        body,
        reduced=range(1 + 2 * dims, 1 + 3 * dims),
    )
    result = b.reshape(result, (w.planes, *covered))
    beyond = [0, *(n - whole for n, whole in zip(w.size, covered, strict=True))]
    return b.pad(result, [0] * (1 + dims), beyond, 0) if any(beyond) else result
