"""Op records of masks: positions of True elements, and writes there."""

from __future__ import annotations

from ftm_backend.dtypes import ALL
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index, scatter_rows, tensor_type
from ftm_backend.frontend.oplib.cumulative import scan
from ftm_backend.frontend.oplib.op_registry import EXACT, lowering
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded("aten::masked_select", forbids_overlap=True)
recorded("aten::masked_scatter", tried=("always",), may_fail=True)
recorded("aten::masked_scatter_backward", may_fail=True, composite="whole")


def flat_source(b: LinalgBuilder, x: StridedValue) -> StridedValue:
    """Flatten `x` for checked reads; an empty tensor gets one element, so that reads fault."""
    return b.reshape(x, (x.type.numel,)) if x.type.numel else b.full(0, x.dtype, (1,))


def ranks_of(b: LinalgBuilder, mask: StridedValue) -> tuple[StridedValue, StridedValue]:
    """Count True elements of `mask`, as flat i32.

    Returns:
        For each element the number of True elements before it, and the total.
    """
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
        return e.where(
            m, b.extract(flat, [e.where(m, checked_index(rank, source.type.numel), 0)]), x
        )

    return b.pointwise(body, [self.expand(shape), mask, b.reshape(ranks, shape)], b.result)


@lowering("aten::masked_scatter_backward", ALL, "masked_scatter_backward", EXACT)
def _masked_scatter_backward(
    b: LinalgBuilder, grad_output: StridedValue, mask: StridedValue, sizes: list[int]
) -> StridedValue:
    """Compact the gradient where the mask is True; fill the unused elements with zeros."""
    count, size = grad_output.type.numel, b.result.numel
    if not count or not size:
        return b.full(0, grad_output.dtype, sizes)
    mask = mask.expand(grad_output.shape)
    ranks, _ = ranks_of(b, mask)
    # unselected elements go to an extra element at the end, which is cut off
    rows = b.pointwise(
        lambda m, r: e.where(m, checked_index(r, size), size),
        [b.reshape(mask, (count,)), ranks],
        tensor_type("i64", (count,)),
    )
    zeros = b.full(0, grad_output.dtype, (size + 1, 1))
    result = scatter_rows(b, zeros, rows, b.reshape(grad_output, (count, 1)), "set")
    return b.reshape(result.slice(0, 0, size), sizes)


recorded("aten::nonzero_static", layout="cpu")


@lowering("aten::nonzero_static", ALL, "nonzero_static", EXACT)
def _nonzero_static(
    b: LinalgBuilder, self: StridedValue, size: int, fill_value: int = -1
) -> StridedValue:
    """Return the coordinates of the first `size` nonzero elements, one per row."""
    count, rank = self.type.numel, self.rank
    if not count or not size or not rank:
        return b.full(fill_value, "i64", b.result.shape)
    mask = b.pointwise(lambda x: x.ne(0), [self])
    ranks, _ = ranks_of(b, mask)
    # unlisted elements go to an extra row at the end, which is cut off
    rows = b.pointwise(
        lambda m, r: e.where(m & (r < size), r, size),
        [b.reshape(mask, (count,)), ranks],
        tensor_type("i64", (count,)),
    )

    def coordinate() -> ScalarExpr:
        found = b.index(0)
        for k in range(1, rank):
            found = e.where(b.index(rank).eq(k), b.index(k), found)
        return found

    shape = (*self.shape, rank)
    (indices,) = b.generic(shape, [], [LoopOutput("i64", shape, range(rank + 1))], coordinate)
    listed = scatter_rows(
        b,
        b.full(fill_value, "i64", (size + 1, rank)),
        rows,
        b.reshape(indices, (count, rank)),
        "set",
    )
    return listed.slice(0, 0, size)
