"""Lowerings of binary search in sorted rows."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.advanced_indexing import checked_index, tensor_type
from ftm_backend.frontend.scalar_math import Number, ScalarExpr
from ftm_backend.symbolic import sufficient_bits


def count_before(
    b: LinalgBuilder,
    size: int,
    element: Callable[[ScalarExpr], ScalarExpr],
    value: ScalarExpr,
    right: bool,
) -> ScalarExpr:
    """In a body: count the elements of a sorted sequence that come before `value`, as i64.

    NaN comes after all numbers, as in PyTorch.

    Args:
        b: The builder.
        size: Length of the sequence.
        element: From an index in ``[0, size)``, an i64 ScalarExpr, to the element.
        value: The value to search for.
        right: Also count the elements equal to `value`.
    """
    count = b.constant(0, "i64")
    step = 1 << sufficient_bits(size) >> 1
    while step:
        next_count = count + step
        at = element(e.minimum(next_count, size) - 1)
        before = ~(at > value) if right else ~(at >= value)
        count = e.where(before & (next_count <= size), next_count, count)
        step >>= 1
    return count


def search_sorted(
    b: LinalgBuilder,
    rows: StridedValue,
    values: StridedValue | Number,
    right: bool,
    dtype: str = "i64",
    sorter: StridedValue | None = None,
) -> StridedValue:
    """Search for each of `values` [..., m] in its row of `rows` [..., n].

    Args:
        b: The builder.
        rows: Sorted rows; a single row serves values of any shape.
        values: A tensor or a scalar.
        right: Return the position after equal elements.
        dtype: The result's dtype.
        sorter: The permutation that sorts `rows`, if they are unsorted.

    Returns:
        Insertion positions, in the shape of `values`.
    """
    common = compute_dtype(b.promoted_dtype([rows, values]))
    size, shape = rows.shape[-1], values.shape if isinstance(values, StridedValue) else ()
    if not size:
        return b.full(0, dtype, shape)
    table = rows
    permutation = None if sorter is None else sorter
    outer = rows.rank - 1

    def body(*value: ScalarExpr) -> ScalarExpr:
        row = [b.index(k) for k in range(outer)]

        def element(index: ScalarExpr) -> ScalarExpr:
            if permutation is not None:
                index = checked_index(b.extract(permutation, [*row, index]), size)
            return b.extract(table, [*row, index]).to(common)

        target = (
            value[0].to(common)
            if isinstance(values, StridedValue)
            else b.scalar_operand(values, common)
        )
        return count_before(b, size, element, target, right).to(dtype)

    if isinstance(values, StridedValue):
        return b.pointwise(body, [values], tensor_type(dtype, shape))
    return b.generic((), [], [LoopOutput(dtype, (), ())], body)[0]
