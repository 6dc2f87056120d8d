"""Masks: where the True elements are, and writing there."""

from __future__ import annotations

from ftm_backend.dtypes import ALL
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.cumulative import scan
from ftm_backend.frontend.oplib.index_scatter import inside, scatter_rows, typed
from ftm_backend.frontend.oplib.op_record import EXACT, lowering
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.oplib.schema_annotations import recorded
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded("aten::masked_select", forbids_overlap=True)
recorded("aten::masked_scatter", tried=("always",), may_fail=True)
recorded("aten::masked_scatter_backward", may_fail=True, composite="whole")

__all__ = ["flat_source", "ranks_of"]


def flat_source(b: LinalgBuilder, x: StridedValue) -> StridedValue:
    """``x`` flat, to be read at places that are checked; one element in place of none, so that
    there is a buffer in which to be outside."""
    return b.reshape(x, (x.type.numel,)) if x.type.numel else b.full(0, x.dtype, (1,))


def ranks_of(b: LinalgBuilder, mask: StridedValue) -> tuple[StridedValue, StridedValue]:
    """(for each element of ``mask`` how many before it are True, how many are), as flat i32."""
    flat = b.cast(b.reshape(mask, (mask.type.numel,)), "i32")
    counts = scan(b, "sum", flat, 0)
    ranks = b.pointwise(lambda c, m: c - m, [counts, flat], flat.type)
    return ranks, reduce(b, "sum", [flat], [0], "i32")


@lowering("aten::masked_scatter", ALL, "masked_scatter", EXACT)
def _masked_scatter(
    b: LinalgBuilder, self: StridedValue, mask: StridedValue, source: StridedValue
) -> StridedValue:
    shape, flat = b.result.shape, flat_source(b, source)
    mask = mask.expand(shape)
    if not b.result.numel:
        return self.expand(shape)
    ranks, _ = ranks_of(b, mask)

    def body(x: ScalarExpr, m: ScalarExpr, rank: ScalarExpr) -> ScalarExpr:
        return e.where(m, b.extract(flat, [e.where(m, inside(rank, source.type.numel), 0)]), x)

    return b.pointwise(body, [self.expand(shape), mask, b.reshape(ranks, shape)], b.result)


@lowering("aten::masked_scatter_backward", ALL, "masked_scatter_backward", EXACT)
def _masked_scatter_backward(
    b: LinalgBuilder, grad_output: StridedValue, mask: StridedValue, sizes: list[int]
) -> StridedValue:
    """The gradient where the mask is True, one after the other; zeros for elements that were not
    needed."""
    count, size = grad_output.type.numel, b.result.numel
    if not count or not size:
        return b.full(0, grad_output.dtype, sizes)
    mask = mask.expand(grad_output.shape)
    ranks, _ = ranks_of(b, mask)
    # What is not selected goes to an element of its own behind the others, which is cut off.
    rows = b.pointwise(
        lambda m, r: e.where(m, inside(r, size), size).to("i64"),
        [b.reshape(mask, (count,)), ranks],
        typed("i64", (count,)),
    )
    zeros = b.full(0, grad_output.dtype, (size + 1, 1))
    made = scatter_rows(b, zeros, rows, b.reshape(grad_output, (count, 1)), "set")
    return b.reshape(made.slice(0, 0, size), sizes)


recorded("aten::nonzero_static", layout="cpu")


@lowering("aten::nonzero_static", ALL, "nonzero_static", EXACT)
def _nonzero_static(
    b: LinalgBuilder, self: StridedValue, size: int, fill_value: int = -1
) -> StridedValue:
    """The coordinates of the first ``size`` elements that are not zero, a row for each."""
    count, rank = self.type.numel, self.rank
    if not count or not size or not rank:
        return b.full(fill_value, "i64", b.result.shape)
    mask = b.pointwise(lambda x: x.ne(0), [self], typed("i1", self.shape))
    ranks, _ = ranks_of(b, mask)
    # What is not listed goes to a row of its own behind the others, which is cut off.
    rows = b.pointwise(
        lambda m, r: e.where(m & (r < size), r, size).to("i64"),
        [b.reshape(mask, (count,)), ranks],
        typed("i64", (count,)),
    )

    def coordinate() -> ScalarExpr:
        found = b.index(0)
        for k in range(1, rank):
            found = e.where(b.index(rank).eq(k), b.index(k), found)
        return found

    shape = (*self.shape, rank)
    (places,) = b.generic(shape, [], [LoopOutput("i64", shape, range(rank + 1))], coordinate)
    listed = scatter_rows(
        b,
        b.full(fill_value, "i64", (size + 1, rank)),
        rows,
        b.reshape(places, (count, rank)),
        "set",
    )
    return listed.slice(0, 0, size)
