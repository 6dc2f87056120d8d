"""Op records of segment_reduce: reductions over segments given by lengths or offsets."""

from __future__ import annotations

import math
from collections.abc import Callable

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import OUT_OF_BOUNDS, checked_index, scatter_rows
from ftm_backend.frontend.oplib.binary_search import count_before
from ftm_backend.frontend.oplib.cumulative import scan
from ftm_backend.frontend.oplib.op_registry import SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.overload_arguments import given_argument
from ftm_backend.frontend.scalar_math import Number, ScalarExpr

recorded("aten::_segment_reduce_backward", may_fail=True)

_KINDS = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}
_SEGMENTS = (*FLOATS, "i64", "i32")


class _Segments:
    """Geometry of one call.

    Data is [batch * n, inner]. Results are [batch * count, inner], plus one row for elements
    outside of all segments.
    """

    def __init__(
        self,
        b: LinalgBuilder,
        data: StridedValue,
        lengths: StridedValue | None,
        offsets: StridedValue | None,
        axis: int,
        whole: bool,
    ) -> None:
        self.b = b
        self.batch, self.n, self.inner = (
            math.prod(data.shape[:axis]),
            data.shape[axis],
            math.prod(data.shape[axis + 1 :]),
        )
        self.count = given_argument(lengths, offsets).shape[axis] - (lengths is None)
        if lengths is None:
            limits = b.cast(
                b.reshape(given_argument(offsets, lengths), (self.batch, self.count + 1)), "i64"
            )
            ends, begins = limits.slice(1, 1, self.count), limits.slice(1, 0, self.count)
        else:
            runs = b.cast(b.reshape(lengths, (self.batch, self.count)), "i64")
            ends = scan(b, "sum", runs, 1)
            begins = b.pointwise(lambda end, run: end - run, [ends, runs])
        self.shape = (self.batch * self.count + 1, self.inner)
        self.lengths = self._with_rest(b.pointwise(lambda end, begin: end - begin, [ends, begins]))
        self.rows = self._rows(ends, begins, whole and lengths is not None)

    def _with_rest(self, x: StridedValue) -> StridedValue:
        rows = self.batch * self.count
        return self.b.pad(self.b.reshape(x, (rows, 1)), [0, 0], [1, 0], 1)

    def _rows(self, ends: StridedValue, begins: StridedValue, whole: bool) -> StridedValue:
        """Return the segment of each element along the dimension, as i64 [batch * n]."""
        b, count, n = self.b, self.count, self.n
        if not self.batch or not n or not count:
            return b.full(self.shape[0] - 1, "i64", (self.batch * n,))

        def body() -> ScalarExpr:
            batch, position = b.index(0), b.index(1)
            segment = count_before(
                b, count, lambda k: b.extract(ends, [batch, k]), position, right=True
            )
            begin = b.extract(begins, [batch, e.minimum(segment, count - 1)])
            own = (segment < count) & (begin <= position)
            row = e.where(own, batch * count + segment, self.shape[0] - 1)
            if whole:  # PyTorch rejects lengths that do not cover the dimension
                row = e.where(
                    b.extract(ends, [batch, b.constant(count - 1, "i64")]).eq(n), row, OUT_OF_BOUNDS
                )
            return row

        result = b.generic((self.batch, n), [], [LoopOutput("i64", (self.batch, n), (0, 1))], body)[
            0
        ]
        return b.reshape(result, (self.batch * n,))

    def combine(self, start: Number, updates: StridedValue, kind: str) -> StridedValue:
        """Reduce `updates` [batch * n, inner] into the segments, starting from `start`."""
        dest = self.b.full(start, updates.dtype, self.shape)
        return scatter_rows(self.b, dest, self.rows, updates, kind)

    def spread(self, x: StridedValue) -> Callable[[ScalarExpr], ScalarExpr]:
        """Return a function for bodies over [batch * n, inner]: the value of the element's segment.

        `x` is [segments, inner or 1].
        """
        b, table = self.b, x

        def read(row: ScalarExpr) -> ScalarExpr:
            return b.extract(
                table,
                [
                    checked_index(row, self.shape[0]),
                    b.index(1) if x.shape[1] != 1 else b.index(1) * 0,
                ],
            )

        return read


@lowering("aten::segment_reduce", _SEGMENTS, "segment_reduce", SUMS)
def _segment_reduce(
    b: LinalgBuilder,
    data: StridedValue,
    reduce: str,
    lengths: StridedValue | None = None,
    indices: StridedValue | None = None,
    offsets: StridedValue | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> StridedValue:
    dtype = compute_dtype(data.dtype)
    segments = _Segments(b, data, lengths, offsets, axis % data.rank, not unsafe)
    identity = {"prod": 1, "max": e.lowest(dtype), "min": e.highest(dtype)}.get(reduce, 0)
    start = b.scalar_operand(identity if initial is None else initial, dtype)
    flat = b.reshape(b.cast(data, dtype), (segments.batch * segments.n, segments.inner))
    total = segments.combine(start, flat, _KINDS[reduce])
    if reduce == "mean":
        empty = start if initial is not None else b.constant(math.nan, dtype)
        total = b.pointwise(
            lambda t, n: e.where(n > 0, t / n.to(dtype), empty), [total, segments.lengths]
        )
    return b.cast(b.reshape(total.slice(0, 0, segments.shape[0] - 1), b.result.shape), data.dtype)


@lowering("aten::_segment_reduce_backward", _SEGMENTS, "segment_reduce_backward", SUMS)
def _segment_reduce_backward(
    b: LinalgBuilder,
    grad: StridedValue,
    output: StridedValue,
    data: StridedValue,
    reduce: str,
    lengths: StridedValue | None = None,
    offsets: StridedValue | None = None,
    axis: int = 0,
    initial: Number | None = None,
) -> StridedValue:
    dtype = compute_dtype(data.dtype)
    s = _Segments(b, data, lengths, offsets, axis % data.rank, False)
    flat = b.reshape(b.cast(data, dtype), (s.batch * s.n, s.inner))
    rows = b.reshape(s.rows, (s.batch * s.n, 1))

    def segmentwise(x: StridedValue) -> Callable[[ScalarExpr], ScalarExpr]:
        """Return a reader of a tensor of the result's shape; 0 outside of all segments."""
        x = b.reshape(b.cast(x, dtype), (s.batch * s.count, s.inner))
        return s.spread(b.pad(x, [0, 0], [1, 0], 0))

    incoming, value, length = segmentwise(grad), segmentwise(output), s.spread(s.lengths)
    if reduce in ("sum", "mean"):

        def element(x: ScalarExpr, row: ScalarExpr) -> ScalarExpr:
            return incoming(row) / length(row).to(dtype) if reduce == "mean" else incoming(row)
    elif reduce == "prod":
        # PyTorch rounds to the half type's range before the division
        def scaled(row: ScalarExpr) -> ScalarExpr:
            return (incoming(row) * value(row)).to(data.dtype).to(dtype)

        gradient = _prod_element(
            b, s, flat, incoming, scaled, b.scalar_operand(1 if initial is None else initial, dtype)
        )

        def element(x: ScalarExpr, row: ScalarExpr) -> ScalarExpr:
            return gradient(x, row)
    else:

        def chosen(x: ScalarExpr, row: ScalarExpr) -> ScalarExpr:
            return x.eq(value(row)) | e.isnan(x)

        hits = b.pointwise(lambda x, row: chosen(x, row).to(dtype), [flat, rows])
        ties = s.spread(s.combine(0, hits, "add"))

        def element(x: ScalarExpr, row: ScalarExpr) -> ScalarExpr:
            return e.where(chosen(x, row), incoming(row) / e.maximum(ties(row), 1), 0)

    result = b.pointwise(element, [flat, rows])
    return b.cast(b.reshape(result, b.result.shape), data.dtype)


def _prod_element(
    b: LinalgBuilder,
    s: _Segments,
    flat: StridedValue,
    incoming: Callable[[ScalarExpr], ScalarExpr],
    scaled: Callable[[ScalarExpr], ScalarExpr],
    start: ScalarExpr,
) -> Callable[[ScalarExpr, ScalarExpr], ScalarExpr]:
    """Return the gradient of a product, i.e. the product of the other elements.

    It is product / element, unless the element is zero or NaN.

    Args:
        b: The builder.
        s: The segments.
        flat: The data.
        incoming: Reads the gradient of an element's segment.
        scaled: Its product with the segment's result.
        start: The initial value of the product.
    """
    dtype = flat.dtype

    def plain(x: ScalarExpr) -> ScalarExpr:
        return x.ne(0) & ~e.isnan(x)

    others = b.pointwise(lambda x: e.where(plain(x), x, 1), [flat])
    product = s.spread(s.combine(start, others, "mul"))
    zeros = s.spread(s.combine(0, b.pointwise(lambda x: x.eq(0).to(dtype), [flat]), "add"))
    nans = s.spread(s.combine(0, b.pointwise(lambda x: e.isnan(x).to(dtype), [flat]), "add"))

    def element(x: ScalarExpr, row: ScalarExpr) -> ScalarExpr:
        no_nan = nans(row) <= e.isnan(x).to(dtype)
        no_zero = zeros(row) <= x.eq(0).to(dtype)
        product_of_others = e.where(no_nan, e.where(no_zero, product(row), 0), math.nan)
        return e.where(plain(x), scaled(row) / x, incoming(row) * product_of_others)

    return element
