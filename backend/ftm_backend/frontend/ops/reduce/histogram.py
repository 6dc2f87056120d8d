"""Op records of histograms: counts of elements, or of rows of coordinates, between bin edges."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import partial

from ftm_backend.dtypes import FLOATS, INTS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopInput, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import OUT_OF_BOUNDS, scatter_rows, tensor_type
from ftm_backend.frontend.oplib.binary_search import count_before
from ftm_backend.frontend.oplib.op_registry import EXACT, SUMS, lowering
from ftm_backend.frontend.oplib.op_traits import ValueDomain, recorded
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.linalg.affine import row_major

recorded("aten::histc", constants=("min", "max"), domain=ValueDomain("min", "max"), may_fail=True)
recorded(
    "aten::histogram aten::_histogramdd_from_bin_cts aten::_histogramdd_from_bin_tensors",
    may_fail=True,
)


@lowering("aten::histc", FLOATS + INTS, "histc", EXACT)
def _histc(
    b: LinalgBuilder, self: StridedValue, bins: int = 100, min: Number = 0, max: Number = 0
) -> StridedValue:
    dtype, count = compute_dtype(self.dtype), self.type.numel
    wide = dtype if e.info(dtype).kind == "float" else "f64"
    flat = b.cast(b.reshape(self, (count,)), wide)
    if not count:
        return b.full(0, self.dtype, (bins,))
    low, high = (b.scalar_operand(x, wide) for x in (min, max))
    bounds = [reduce(b, kind, [flat], (0,), wide) for kind in ("min", "max")]

    def edges(least: ScalarExpr, most: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
        """Take the data's bounds if the given ones are equal; widen by 1 if those are equal too."""
        left, right = e.where(low.eq(high), least, low), e.where(low.eq(high), most, high)
        same = left.eq(right)
        return e.where(same, left - 1, left), e.where(same, right + 1, right)

    def position(x: ScalarExpr, least: ScalarExpr, most: ScalarExpr) -> ScalarExpr:
        left, right = edges(least, most)
        hit = (x >= left) & (x <= right)
        spot = (e.where(hit, x, left) - left) * bins / (right - left)
        # elements outside go to an extra bin, which is cut off
        bin_ = e.where(hit, e.minimum(spot.to("i64"), bins - 1), bins)
        # bounds must be finite
        return e.where((left - left).eq(0) & (right - right).eq(0), bin_, OUT_OF_BOUNDS)

    rows = b.pointwise(position, [flat, *bounds], tensor_type("i64", (count,)))
    ones = b.full(1, dtype, (count, 1))
    result = scatter_rows(b, b.full(0, dtype, (bins + 1, 1)), rows, ones, "add")
    return b.cast(b.reshape(result.slice(0, 0, bins), (bins,)), self.dtype)


# --- with edges
# -----------------------------------------------------------------------------------------------


class _Edges:
    """Bin edges of one dimension.

    Attributes:
        count: Number of edges.
        at: In a body: returns an edge from its number and the values of `bounds`.
        bounds: Tensors that the edges depend on.
    """

    def __init__(
        self, count: int, at: Callable[..., ScalarExpr], bounds: Sequence[StridedValue] = ()
    ) -> None:
        self.count, self.at, self.bounds = count, at, bounds


def _given(b: LinalgBuilder, edges: StridedValue) -> _Edges:
    table = edges
    return _Edges(edges.shape[0], lambda position: b.extract(table, [position]))


def _spaced(
    b: LinalgBuilder, column: StridedValue, count: int, bounds: tuple[float, float] | None
) -> _Edges:
    """Return `count` evenly spaced edges between `bounds`, or between the extremes of `column`."""
    dtype = column.dtype
    if bounds is None and column.type.numel:
        extremes = [
            b.reshape(reduce(b, kind, [column], (0,), dtype), (1, 1)) for kind in ("min", "max")
        ]
    else:
        extremes = [b.full(x, dtype, (1, 1)) for x in bounds or (0.0, 1.0)]

    def at(position: ScalarExpr, least: ScalarExpr, most: ScalarExpr) -> ScalarExpr:
        same = least.eq(most)  # equal bounds: a range of width 1 around them
        left, right = e.where(same, least - 0.5, least), e.where(same, most + 0.5, most)
        step = (right - left) / (count - 1)
        ahead = (position.const(count - 1) - position).to(dtype)
        edge = e.where(
            position < count // 2, left + step * position.to(dtype), right - step * ahead
        )
        return e.where((left - left).eq(0) & (right - right).eq(0), edge, math.nan)

    return _Edges(count, at, extremes)


def _tensor_of(b: LinalgBuilder, edges: _Edges, dtype: str) -> StridedValue:
    """Return the edges as a tensor."""
    reading = [LoopInput(x, (None, None)) for x in edges.bounds]
    return b.generic(
        (edges.count,),
        reading,
        [LoopOutput(dtype, (edges.count,), [0])],
        lambda *ends: edges.at(b.index(0), *ends),
    )[0]


def _histogram(
    b: LinalgBuilder,
    x: StridedValue,
    dims: Sequence[_Edges],
    weight: StridedValue | None,
    density: bool,
) -> StridedValue:
    """Count rows of `x` [n, d], or sum their `weight`, in each bin; the last edge is inclusive."""
    dtype, count = x.dtype, x.shape[0]
    shape = [edges.count - 1 for edges in dims]
    bins, strides = math.prod(shape), row_major(shape)
    bounds = [x for edges in dims for x in edges.bounds]

    def at(edges: _Edges, own: list[ScalarExpr], number: ScalarExpr) -> ScalarExpr:
        return edges.at(number, *own)

    def position(*values: ScalarExpr) -> ScalarExpr:
        columns, ends = values[: len(dims)], iter(values[len(dims) :])
        row, hit = b.constant(0, "i64"), b.constant(1, "i1")
        for value, edges, stride in zip(columns, dims, strides, strict=True):
            own = [next(ends) for _ in edges.bounds]
            last = b.constant(edges.count - 1, "i64")
            first_edge, last_edge = edges.at(b.constant(0, "i64"), *own), edges.at(last, *own)
            found = count_before(b, edges.count, partial(at, edges, own), value, right=True) - 1
            row = row + e.minimum(e.maximum(found, 0), edges.count - 2) * stride
            hit = hit & (value >= first_edge) & (value <= last_edge)
            if own:  # data-dependent bounds must be finite
                row = e.where(e.isnan(first_edge), OUT_OF_BOUNDS, row)
                hit = hit | e.isnan(first_edge)
        return e.where(hit, row, bins)

    hist = b.full(0, dtype, (bins + 1, 1))
    if count:
        rows = b.pointwise(
            position,
            [*(x.slice(1, d, 1) for d in range(len(dims))), *bounds],
            tensor_type("i64", (count, 1)),
        )
        updates = (
            b.full(1, dtype, (count, 1))
            if weight is None
            else b.reshape(b.cast(weight, dtype), (count, 1))
        )
        hist = scatter_rows(b, hist, b.reshape(rows, (count,)), updates, "add")
    hist = b.reshape(hist.slice(0, 0, bins), shape)
    if not density:
        return hist
    total = reduce(b, "sum", [hist], range(len(shape)), dtype)

    def share(h: ScalarExpr, whole: ScalarExpr, *ends: ScalarExpr) -> ScalarExpr:
        left, h = iter(ends), h / whole
        for d, edges in enumerate(dims):
            own = [next(left) for _ in edges.bounds]
            h = h / (edges.at(b.index(d) + 1, *own) - edges.at(b.index(d), *own))
        return h

    return b.pointwise(share, [hist, total, *(b.reshape(x, (1,) * len(shape)) for x in bounds)])


def _ranges(range: list[float] | None, dims: int) -> list[tuple[float, float] | None]:
    return (
        [None] * dims
        if range is None
        else [(range[2 * d], range[2 * d + 1]) for d in builtins.range(dims)]
    )


@lowering("aten::histogram.bin_ct aten::histogram.bins_tensor", ("f32", "f64"), "histogram", SUMS)
def _one_histogram(
    b: LinalgBuilder,
    self: StridedValue,
    bins: StridedValue | int = 100,
    range: list[float] | None = None,
    weight: StridedValue | None = None,
    density: bool = False,
) -> tuple[StridedValue, StridedValue]:
    x = b.reshape(self, (self.type.numel, 1))
    if isinstance(bins, int):
        edges = _spaced(b, x, bins + 1, _ranges(range, 1)[0])
        return _histogram(b, x, [edges], weight, density), _tensor_of(b, edges, self.dtype)
    return _histogram(b, x, [_given(b, bins)], weight, density), bins


def _rows_of(b: LinalgBuilder, x: StridedValue) -> StridedValue:
    return b.reshape(x, (x.type.numel // max(1, x.shape[-1]), x.shape[-1]))


@lowering("aten::_histogramdd_bin_edges", ("f32", "f64"), "histogramdd", SUMS)
def _bin_edges(
    b: LinalgBuilder,
    self: StridedValue,
    bins: list[int],
    range: list[float] | None = None,
    weight: StridedValue | None = None,
    density: bool = False,
) -> tuple[StridedValue, ...]:
    x = _rows_of(b, self)
    bounds = _ranges(range, len(bins))
    return tuple(
        _tensor_of(b, _spaced(b, x.slice(1, d, 1), n + 1, bounds[d]), self.dtype)
        for d, n in enumerate(bins)
    )


@lowering(
    "aten::_histogramdd_from_bin_cts aten::_histogramdd_from_bin_tensors",
    ("f32", "f64"),
    "histogramdd",
    SUMS,
)
def _many_histogram(
    b: LinalgBuilder,
    self: StridedValue,
    bins: list[StridedValue | int],
    range: list[float] | None = None,
    weight: StridedValue | None = None,
    density: bool = False,
) -> StridedValue:
    x = _rows_of(b, self)
    bounds = _ranges(range, len(bins))
    dims = [
        _spaced(b, x.slice(1, d, 1), n + 1, bounds[d]) if isinstance(n, int) else _given(b, n)
        for d, n in enumerate(bins)
    ]
    return _histogram(b, x, dims, weight, density)
