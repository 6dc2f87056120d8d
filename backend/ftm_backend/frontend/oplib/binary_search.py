"""Binary search in sorted rows."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.index_scatter import inside, typed
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.symbolic import enough_bits

__all__ = ["count_before", "search_sorted"]


def count_before(
    b: LinalgBuilder,
    size: int,
    element: Callable[[ScalarExpr], ScalarExpr],
    value: ScalarExpr,
    right: bool,
) -> ScalarExpr:
    """In a body: how many of ``size`` sorted elements come before ``value``, as i64.

    Args:
        element: from a place in [0, size), an i64 Elem, to the element there.
        right: also count the elements that equal ``value``.

    A NaN comes after everything, as PyTorch has it.
    """
    found = b.constant(0, "i64")
    step = 1 << enough_bits(size) >> 1
    while step:
        further = found + step
        at = element(e.minimum(further, size) - 1)
        before = ~(at > value) if right else ~(at >= value)
        found = e.where(before & (further <= size), further, found)
        step >>= 1
    return found


def search_sorted(
    b: LinalgBuilder,
    rows: StridedValue,
    values: StridedValue | Number,
    right: bool,
    dtype: str = "i64",
    sorter: StridedValue | None = None,
) -> StridedValue:
    """For each of ``values`` [.., m] where it belongs in its row of ``rows`` [.., n].

    One row serves values of any shape. ``values`` may be a scalar Elem. sorter: the order of
    unsorted rows.
    """
    common = compute_dtype(b.promoted([rows, values]))
    size, shape = rows.shape[-1], values.shape if isinstance(values, StridedValue) else ()
    if not size:
        return b.full(0, dtype, shape)
    table = rows
    order = None if sorter is None else sorter
    outer = rows.rank - 1

    def body(*value: ScalarExpr) -> ScalarExpr:
        row = [b.index(k) for k in range(outer)]

        def element(place: ScalarExpr) -> ScalarExpr:
            if order is not None:
                place = inside(b.extract(order, [*row, place]), size)
            return b.extract(table, [*row, place]).to(common)

        wanted = (
            value[0].to(common) if isinstance(values, StridedValue) else b.inline(values, common)
        )
        return count_before(b, size, element, wanted, right).to(dtype)

    if isinstance(values, StridedValue):
        return b.pointwise(body, [values], typed(dtype, shape))
    return b.generic((), [], [LoopOutput(dtype, (), ())], body)[0]
