"""Op records of sorting: sort, topk, order statistics, mode, isin."""

from __future__ import annotations

import math

from ftm_backend.dtypes import ALL, NUMBERS, info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.binary_search import count_before
from ftm_backend.frontend.oplib.cumulative import scan
from ftm_backend.frontend.oplib.op_registry import EXACT, Lower, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.oplib.sorting import SortedRows, sort, sort_rows
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.ir.trace.trace import TensorType

recorded("aten::kthvalue", forbids_overlap=True)
recorded("aten::sort aten::argsort aten::median aten::nanmedian", tried=("out",))
recorded("aten::mode", tried=("out",), composite="unfit")
recorded("aten::isin", tried=("always",))


@lowering("aten::sort aten::sort.stable", ALL, "sort", EXACT)
def _sort(
    b: LinalgBuilder, self: StridedValue, dim: int = -1, descending: bool = False
) -> tuple[StridedValue, StridedValue]:
    return sort(b, self, dim, descending)


def _unordered(b: LinalgBuilder, x: StridedValue) -> tuple[StridedValue, StridedValue] | None:
    """Return values and indices of a scalar or of an empty result; None if there is an order."""
    if x.rank and b.result.numel:
        return None
    shape = b.result.shape
    values = b.full(0, x.dtype, shape) if x.rank else b.reshape(x, shape)
    return values, b.full(0, "i64", shape)


@lowering("aten::topk", NUMBERS, "topk", EXACT)
def _topk(
    b: LinalgBuilder, self: StridedValue, k: int, dim: int = -1, largest: bool = True
) -> tuple[StridedValue, StridedValue]:
    return _unordered(b, self) or sort_rows(b, self, dim, largest, k).both(b)


@lowering("aten::kthvalue", NUMBERS, "kthvalue", EXACT)
def _kthvalue(
    b: LinalgBuilder, self: StridedValue, k: int, dim: int = -1
) -> tuple[StridedValue, StridedValue]:
    return _unordered(b, self) or _finished(b, sort_rows(b, self, dim, most=k).part(k - 1, 1))


def _finished(b: LinalgBuilder, ordered: SortedRows) -> tuple[StridedValue, StridedValue]:
    """Reshape values and indices to the results' shapes."""
    values, indices = ordered.both(b)
    return b.reshape(values, b.result.shape), b.reshape(indices, b.result.shape)


def _middle(b: LinalgBuilder, x: StridedValue, dim: int, skip: bool) -> SortedRows:
    """Return the lower median along `dim`; with `skip` ignore NaN, else NaN wins."""
    ordered, count = sort_rows(b, x, dim), x.shape[dim]
    if info(x.dtype).kind != "float":
        return ordered.part((count - 1) // 2, 1)
    # NaN is sorted last
    missing = reduce(b, "sum", [x], [dim], "i64", lambda v: e.isnan(v).to("i64"))

    def rank(gone: ScalarExpr) -> ScalarExpr:
        if skip:
            return e.where(gone.eq(count), 0, (gone.const(count - 1) - gone) >> 1)
        return e.where(gone.eq(0), (count - 1) // 2, gone.const(count) - gone)

    return ordered.at(b, b.pointwise(rank, [missing]))


def _median(skip: bool) -> Lower:
    def lower(b: LinalgBuilder, self: StridedValue) -> StridedValue:
        if not self.type.numel:
            smallest = math.nan if info(self.dtype).kind == "float" else e.lowest(self.dtype)
            return b.full(smallest, self.dtype, ())
        flat = b.reshape(self, (self.type.numel,))
        return b.reshape(_middle(b, flat, 0, skip).values(b), ())

    return lower


def _median_dim(skip: bool) -> Lower:
    def lower(b: LinalgBuilder, self: StridedValue, dim: int) -> tuple[StridedValue, StridedValue]:
        return _unordered(b, self) or _finished(b, _middle(b, self, dim % self.rank, skip))

    return lower


lowering("aten::median", NUMBERS, "median", EXACT)(_median(False))
lowering("aten::nanmedian", NUMBERS, "median", EXACT)(_median(True))
lowering("aten::median.dim", NUMBERS, "median_dim", EXACT)(_median_dim(False))
lowering("aten::nanmedian.dim", NUMBERS, "median_dim", EXACT)(_median_dim(True))


@lowering("aten::mode", ALL, "median_dim", EXACT)
def _mode(b: LinalgBuilder, self: StridedValue, dim: int = -1) -> tuple[StridedValue, StridedValue]:
    """Return the least of the most frequent values: the first longest run in a sorted row.

    NaN equals nothing.
    """
    unordered = _unordered(b, self)
    if unordered is not None:
        return unordered
    dim %= self.rank
    ordered = sort_rows(b, self, dim)
    values = ordered.values(b)
    counts = TensorType("i64", self.shape)

    def start(value: ScalarExpr) -> ScalarExpr:
        here = b.index(dim)
        before = b.extract(
            values, [e.maximum(here - 1, 0) if k == dim else b.index(k) for k in range(self.rank)]
        )
        return e.where(here.eq(0) | value.ne(before), here, b.constant(0, "i64"))

    starts = scan(b, "max", b.pointwise(start, [values], counts), dim)
    lengths = b.pointwise(lambda first: b.index(dim) - first, [starts], counts)
    longest = reduce(b, "max", [lengths], [dim], "i64")
    rank = reduce(
        b,
        "min",
        [lengths, longest],
        [dim],
        "i64",
        lambda length, most: e.where(
            length.eq(most), b.index(dim), b.constant(self.shape[dim], "i64")
        ),
    )
    return _finished(b, ordered.at(b, rank))


_FEW = 24
"""Maximum number of test elements that are compared one by one; more are sorted."""


def _is_in(
    b: LinalgBuilder, elements: StridedValue, tests: StridedValue, invert: bool
) -> StridedValue:
    """Return whether each of `elements` is in `tests`, a one-dimensional tensor."""
    common, count = b.promoted_dtype([elements, tests]), tests.shape[0]
    if not count:
        return b.full(invert, "i1", elements.shape)
    few = count <= _FEW
    table = tests if few else sort_rows(b, tests, 0).values(b)

    def test(index: ScalarExpr) -> ScalarExpr:
        return b.extract(table, [index]).to(common)

    def ranked(index: ScalarExpr) -> ScalarExpr:
        at = test(index)
        return e.where(e.isnan(at), math.inf, at) if at.is_float else at  # NaN is sorted last

    def body(value: ScalarExpr) -> ScalarExpr:
        value = value.to(common)
        if few:
            hits = [value.eq(test(b.constant(k, "i64"))) for k in range(count)]
            found = hits[0]
            for hit in hits[1:]:
                found = found | hit
        else:
            found = value.eq(
                test(e.minimum(count_before(b, count, ranked, value, False), count - 1))
            )
        return ~found if invert else found

    return b.pointwise(body, [elements])


@lowering("aten::isin.Tensor_Tensor", NUMBERS, "isin", EXACT)
def _isin(
    b: LinalgBuilder, elements: StridedValue, test_elements: StridedValue, invert: bool = False
) -> StridedValue:
    return _is_in(b, elements, b.reshape(test_elements, (test_elements.type.numel,)), invert)


@lowering("aten::isin.Tensor_Scalar", NUMBERS, "isin", EXACT)
def _isin_scalar(
    b: LinalgBuilder, elements: StridedValue, test_element: Number, invert: bool = False
) -> StridedValue:
    common = b.promoted_dtype([elements, test_element])
    test = b.scalar_operand(test_element, common)

    def body(value: ScalarExpr) -> ScalarExpr:
        found = value.to(common).eq(test)
        return ~found if invert else found

    return b.pointwise(body, [elements], b.result)


@lowering("aten::isin.Scalar_Tensor", NUMBERS, "isin", EXACT)
def _isin_of_scalar(
    b: LinalgBuilder, element: Number, test_elements: StridedValue, invert: bool = False
) -> StridedValue:
    common = b.promoted_dtype([element, test_elements])
    target = b.scalar_operand(element, common)
    found = reduce(
        b, "or", [test_elements], range(test_elements.rank), "i1", lambda v: v.to(common).eq(target)
    )
    found = b.reshape(found, ())
    return b.pointwise(lambda f: ~f, [found], b.result) if invert else found
