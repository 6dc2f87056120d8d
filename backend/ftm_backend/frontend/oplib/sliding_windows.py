"""Windows over the last dimensions of a tensor: their geometry, reading them, and summing back over
them."""

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
from ftm_backend.ir.linalg.strided_layout import Strided

__all__ = ["SlidingWindow", "gather_chosen", "gather_windows", "positions", "windows"]


class SlidingWindow:
    """Geometry of windows over x[..., spatial dimensions]; lists of one entry mean all dimensions.

    dims, size, out: number of spatial dimensions, extents of x and of the windows' places in them.
    planes: number of x's other elements, which all have the same windows.
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
        self.dims = dims
        self.kernel = self._spread(kernel)
        self.stride = self._spread(stride) or self.kernel
        self.padding, self.dilation = self._spread(padding), self._spread(dilation)
        self.size, self.out = tuple(x_shape[-dims:]), tuple(out_shape[-dims:])
        self.planes = math.prod(x_shape[:-dims])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlidingWindow) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def trimmed(self) -> SlidingWindow:
        """The same windows without the places that lie behind the end of x in every one of them:
        where a window is larger than x."""
        made = copy.copy(self)
        made.kernel = [
            min(k, max(-(-(n + p) // d), 1))
            for k, n, p, d in zip(self.kernel, self.size, self.padding, self.dilation, strict=True)
        ]
        return made

    def _spread(self, values: list[int]) -> list[int]:
        return values * self.dims if len(values) == 1 else values

    @property
    def counted(self) -> str:
        """The narrowest type that machines count in and that numbers all places of a plane, and of
        whole blocks of ``stride`` of them."""
        return (
            "i32"
            if math.prod(n + s for n, s in zip(self.size, self.stride, strict=True))
            <= e.highest("i32")
            else "i64"
        )

    @property
    def high(self) -> list[int]:
        """Places that the last windows need behind the end of each dimension (negative: that they
        leave)."""
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
    def tiles(self) -> bool:
        """Windows touch but do not overlap, and cover the input exactly."""
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
        """Loops of a reduction: plane, window, place in the window."""
        return (self.planes, *self.out, *self.kernel)

    @property
    def kept(self) -> range:
        """The loops over planes and windows."""
        return range(1 + self.dims)

    @property
    def inner(self) -> range:
        """The loops over the places in a window."""
        return range(1 + self.dims, 1 + 2 * self.dims)

    def index(self, b: LinalgBuilder) -> list[int | OperandDim]:
        """Where in the padded planes those loops read."""
        return [
            0,
            *(
                b.dim(1 + k) * self.stride[k] + b.dim(1 + self.dims + k) * self.dilation[k]
                for k in range(self.dims)
            ),
        ]


def windows(b: LinalgBuilder, x: StridedValue, w: SlidingWindow, fill: Number) -> StridedValue:
    """x as padded planes that `SlidingWindow.index` reads."""
    return b.pad(b.reshape(x, (w.planes, *w.size)), [0, *w.padding], [0, *w.high], fill)


def positions(
    b: LinalgBuilder, size: Sequence[int], covered: Sequence[int] | None = None, dtype: str = "i64"
) -> StridedValue:
    """Integers of shape ``size``: the number of each place in its plane.

    Read through the windows like the data, it spares every window the arithmetic on its
    coordinates. covered: extents of the result where it goes on beyond the plane; what stands there
    is the number of no place in particular.
    """
    strides = row_major(size)
    size = size if covered is None else covered

    def number() -> ScalarExpr:
        terms = [b.index(k) * s for k, s in enumerate(strides)]
        return sum(terms[1:], terms[0]).to(dtype)

    return b.generic(size, [], [LoopOutput(dtype, tuple(size), range(len(size)))], number)[0]


def gather_windows(
    b: LinalgBuilder,
    w: SlidingWindow,
    inputs: list[tuple[StridedValue, float]],
    dtype: str,
    element: Callable[..., ScalarExpr],
    numbered: str = "",
) -> StridedValue:
    """Gradient of a pooling: for each input place the sum of ``element`` over the windows that see
    it.

    inputs: (value [planes, windows...], what to read where there is no window). element: gets their
    Elems and, if ``numbered``, the number of the input place in its plane in that type; gives an
    Elem of ``dtype``. Windows that tile the input give each place exactly one window, so nothing
    has to be summed.
    """
    dims = w.dims
    if w.tiles:
        loops = (w.planes, *(n for pair in zip(w.out, w.kernel, strict=True) for n in pair))
        reading = [LoopInput(x, [0, *range(1, 2 * dims, 2)]) for x, _ in inputs]
        if numbered:
            reading.append(
                LoopInput(
                    b.reshape(positions(b, w.size, dtype=numbered), loops[1:]),
                    range(1, 1 + 2 * dims),
                )
            )
        (made,) = b.generic(
            loops, reading, [LoopOutput(dtype, loops, range(1 + 2 * dims))], element
        )
        return b.reshape(made, (w.planes, *w.size))
    reading = []
    index: list[int | OperandDim] = [
        0,
        *(b.dim(1 + k) + b.dim(1 + dims + k) * w.dilation[k] for k in range(dims)),
    ]
    for x, missing in inputs:
        # Window o reaches input place i with kernel place k when o * stride = i + padding - k *
        # dilation; with k counted backwards that is a stride-1 window over the windows spread
        # `stride` apart.
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
        reading.append(LoopInput(positions(b, w.size, dtype=numbered), range(1, 1 + dims)))

    def body(*args: ScalarExpr) -> ScalarExpr:
        *elems, carried = args
        return carried + element(*elems)

    out = LoopOutput(dtype, (w.planes, *w.size), range(1 + dims), 0)
    (made,) = b.generic(
        (w.planes, *w.size, *w.kernel), reading, [out], body, reduced=range(1 + dims, 1 + 2 * dims)
    )
    return made


def gather_chosen(
    b: LinalgBuilder, w: SlidingWindow, grad: StridedValue, places: StridedValue, dtype: str
) -> StridedValue:
    """Gradient of a pooling that chose one place in each window: for each input place the sum of
    the gradients of those windows.

    grad, places: [planes, windows...]; places: the chosen place's number in its plane. Each of
    ``stride`` neighbouring input places looks at all the windows that see one of them, by the
    numbers of which it finds its own.
    """
    if w.tiles or any(d != 1 for d in w.dilation):

        def element(g: ScalarExpr, chosen: ScalarExpr, position: ScalarExpr) -> ScalarExpr:
            return e.where(chosen.eq(position), g.to(dtype), 0)

        return gather_windows(
            b, w, [(grad, 0), (places, -1)], dtype, element, numbered=places.dtype
        )
    dims = w.dims
    # Window o sees place i where 0 <= i + padding - o * stride < kernel: for i = a * stride + r,
    # from a + first to a + last.
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
    numbers = b.reshape(positions(b, w.size, covered, places.dtype), kept[1:])
    # Beyond the windows every gradient is 0, whatever is found there.
    reading = [LoopInput(b.pad(x, low, high, 0), index) for x in (grad, places)]

    def body(
        g: ScalarExpr, chosen: ScalarExpr, position: ScalarExpr, carried: ScalarExpr
    ) -> ScalarExpr:
        return carried + e.where(chosen.eq(position), g.to(dtype), 0)

    (made,) = b.generic(
        loops,
        [*reading, LoopInput(numbers, range(1, 1 + 2 * dims))],
        [LoopOutput(dtype, kept, range(1 + 2 * dims), 0)],
        body,
        reduced=range(1 + 2 * dims, 1 + 3 * dims),
    )
    made = b.reshape(made, (w.planes, *covered))
    beyond = [0, *(n - whole for n, whole in zip(w.size, covered, strict=True))]
    return b.pad(made, [0] * (1 + dims), beyond, 0) if any(beyond) else made
