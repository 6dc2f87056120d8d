"""Op records of LU factorization with partial pivoting and its linear systems.

Pivots are LAPACK's: step k swaps row k with row ``pivots[k] - 1``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.concat import concat
from ftm_backend.frontend.oplib.gaussian_elimination import (
    DTYPES,
    SOLUTION_TOLERANCE,
    block_limit,
    extract_column,
    extract_row,
    flatten_batch,
    gather_rows,
    half_of,
    iterate,
    join_blocks,
    row_indices,
    solve_triangular,
    subtract_product,
)
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.oplib.reductions import extreme_with_index
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.frontend.sequential_loop import LoopIteration
from ftm_backend.ir.trace.trace import TensorType


@lowering("aten::linalg_lu_factor_ex", DTYPES, "lu_factor", SOLUTION_TOLERANCE)
def _lu_factor_ex(
    b: LinalgBuilder, A: StridedValue, pivot: bool
) -> tuple[StridedValue, StridedValue, StridedValue]:  # noqa: N803
    """Return L below the diagonal with U, the pivots, and an error code for each matrix.

    The code is 0, or the first step with a pivot of 0, counted from 1. The recorder checks it
    (csrc/kernels/linear_algebra.cpp).
    """
    matrices = flatten_batch(b, A)
    limit = block_limit(min(matrices.shape[1:]))
    factors, pivots, failed = _factorize(b, matrices, limit, pivot)
    shapes = [b.result_type(number).shape for number in range(3)]
    return b.reshape(factors, shapes[0]), b.reshape(pivots, shapes[1]), b.reshape(failed, shapes[2])


def _factorize(
    b: LinalgBuilder, matrices: StridedValue, limit: int, pivot: bool
) -> tuple[StridedValue, StridedValue, StridedValue]:
    """Return factors, pivots [batch, count] and error codes [batch, 1] of [batch, rows, columns].

    Large matrices are halved by columns, because a pivot is the largest element of a whole column.
    """
    rows, columns = matrices.shape[1:]
    half = half_of(min(rows, columns), limit)
    if not half:
        return _factorize_by_columns(b, matrices, pivot)
    left, first_pivots, first_failed = _factorize(b, matrices.slice(2, 0, half), limit, pivot)
    right = gather_rows(
        b, matrices.slice(2, half, columns - half), _order_of(b, first_pivots, rows)
    )
    top, below = left.slice(1, 0, half), left.slice(1, half, rows - half)
    across = solve_triangular(b, top, right.slice(1, 0, half), upper=False, unit=True, limit=limit)
    rest = subtract_product(b, right.slice(1, half, rows - half), below, across)
    last, last_pivots, last_failed = _factorize(b, rest, limit, pivot)
    below = gather_rows(b, below, _order_of(b, last_pivots, rows - half))
    later = b.pointwise(lambda index: index + half, [last_pivots])
    failed = b.pointwise(
        lambda code, number: e.where(code.eq(0) & number.ne(0), number + half, code),
        [first_failed, last_failed],
    )
    factors = join_blocks(b, [[top, across], [below, last]])
    return factors, concat(b, [first_pivots, later], 1), failed


def _factorize_by_columns(
    b: LinalgBuilder, matrices: StridedValue, pivot: bool
) -> tuple[StridedValue, StridedValue, StridedValue]:
    """Return factors, pivots and error codes, by one column in each iteration."""
    batch, rows, columns = matrices.shape
    count = min(rows, columns)

    def step(
        at: LoopIteration, k: StridedValue, states: Sequence[StridedValue]
    ) -> list[StridedValue]:
        matrix, failed, pivots = states
        own = extract_column(b, matrix, k)
        chosen = b.pointwise(lambda number: number, [k], TensorType("i64", (batch, 1)))
        if pivot:

            def candidate(value: ScalarExpr, number: ScalarExpr) -> ScalarExpr:
                return e.where(b.index(1) < number, -1, abs(value))

            _, chosen = extreme_with_index(b, "max", b.pointwise(candidate, [own, k]), 1)
        upper, replaced = extract_row(b, matrix, chosen), extract_row(b, matrix, k)
        divisor, moved = (
            extract_row(b, own.unsqueeze(2), chosen),
            extract_row(b, own.unsqueeze(2), k),
        )

        def factor(
            value: ScalarExpr,
            at_pivot: ScalarExpr,
            at_k: ScalarExpr,
            number: ScalarExpr,
            index: ScalarExpr,
        ) -> ScalarExpr:
            value = e.where(b.index(1).eq(index), at_k, value)
            return e.where(at_pivot.eq(0), value, value / at_pivot)

        factors = b.pointwise(factor, [own, divisor, moved, k, chosen])

        def updated(
            value: ScalarExpr,
            left: ScalarExpr,
            right: ScalarExpr,
            old: ScalarExpr,
            number: ScalarExpr,
            index: ScalarExpr,
        ) -> ScalarExpr:
            i, j = b.index(1), b.index(2)
            value = e.where(i.eq(index), old, value)
            below = e.where(j.eq(number), left, e.where(j > number, value - left * right, value))
            return e.where(i.eq(number), right, e.where(i > number, below, value))

        inputs = [
            matrix,
            factors.unsqueeze(2),
            upper.unsqueeze(1),
            replaced.unsqueeze(1),
            k,
            chosen.unsqueeze(2),
        ]
        matrix = b.pointwise(updated, inputs, TensorType(matrix.dtype, (batch, rows, columns)))

        def failure(seen: ScalarExpr, value: ScalarExpr, number: ScalarExpr) -> ScalarExpr:
            return e.where(seen.eq(0) & value.eq(0), (number + 1).to("i32"), seen)

        failed = b.pointwise(failure, [failed, divisor, k], TensorType("i32", (batch, 1)))

        def noted(seen: ScalarExpr, index: ScalarExpr, number: ScalarExpr) -> ScalarExpr:
            return e.where(b.index(1).eq(number), (index + 1).to("i32"), seen)

        return [
            matrix,
            failed,
            b.pointwise(noted, [pivots, chosen, k], TensorType("i32", (batch, count))),
        ]

    states = [matrices, b.full(0, "i32", (batch, 1)), b.full(0, "i32", (batch, count))]
    factors, failed, pivots = iterate(b, count, states, step)
    return factors, pivots, failed


def _order_of(
    b: LinalgBuilder, pivots: StridedValue, rows: int, *, inverse: bool = False
) -> StridedValue:
    """Return the permutation of rows, [batch, rows], of pivots [batch, count].

    Row i of P.mT @ A (of P @ A with `inverse`) is row ``order[i]`` of A.
    """
    batch, count = pivots.shape
    swaps = pivots.transpose(0, 1)

    def step(
        at: LoopIteration, k: StridedValue, states: Sequence[StridedValue]
    ) -> list[StridedValue]:
        (order,) = states
        chosen = at.row(swaps, *((count - 1, -1) if inverse else (0, 1)))
        other = b.pointwise(
            lambda index: index.to("i64") - 1, [chosen.unsqueeze(1)], TensorType("i64", (batch, 1))
        )
        first, second = (
            extract_row(b, order.unsqueeze(2), k),
            extract_row(b, order.unsqueeze(2), other),
        )

        def swapped(
            value: ScalarExpr,
            at_k: ScalarExpr,
            at_other: ScalarExpr,
            number: ScalarExpr,
            index: ScalarExpr,
        ) -> ScalarExpr:
            i = b.index(1)
            return e.where(i.eq(number), at_other, e.where(i.eq(index), at_k, value))

        return [
            b.pointwise(swapped, [order, first, second, k, other], TensorType("i64", (batch, rows)))
        ]

    return iterate(b, count, [row_indices(b, batch, rows)], step, backwards=inverse)[0]


@lowering("aten::linalg_lu_solve", (*DTYPES, "i32"), "lu_solve", SOLUTION_TOLERANCE)
def _lu_solve(
    b: LinalgBuilder,
    LU: StridedValue,
    pivots: StridedValue,
    B: StridedValue,
    left: bool,
    adjoint: bool,
) -> StridedValue:  # noqa: N803
    """Return X with ``A @ X = B`` for A = P @ L @ U; batches broadcast.

    With `adjoint` solve for A.mT; without `left` solve ``X @ A = B``.
    """
    shape = b.result.shape
    outer = shape[:-2]
    right = B.expand(shape)
    factors = flatten_batch(b, LU.expand((*outer, *LU.shape[-2:])))
    swaps = flatten_batch(b, pivots.expand((*outer, pivots.shape[-1])), 1)
    columns_first = right if left else right.transpose()
    rhs = flatten_batch(b, columns_first)
    if adjoint == left:  # A.mT @ X = B, or the transpose of X @ A = B
        half = solve_triangular(b, factors.transpose(), rhs, upper=False)
        whole = solve_triangular(b, factors.transpose(), half, upper=True, unit=True)
        solved = gather_rows(b, whole, _order_of(b, swaps, rhs.shape[1], inverse=True))
    else:
        half = solve_triangular(
            b,
            factors,
            gather_rows(b, rhs, _order_of(b, swaps, rhs.shape[1])),
            upper=False,
            unit=True,
        )
        solved = solve_triangular(b, factors, half, upper=True)
    solved = b.reshape(solved, columns_first.shape)
    return solved if left else solved.transpose()


@lowering("aten::lu_unpack", (*DTYPES, "i32"), "lu_unpack", SOLUTION_TOLERANCE)
def _lu_unpack(
    b: LinalgBuilder,
    LU_data: StridedValue,
    LU_pivots: StridedValue,
    unpack_data: bool,
    unpack_pivots: bool,  # noqa: N803
) -> tuple[StridedValue, StridedValue, StridedValue]:
    """Return P, L and U; those not requested are empty."""
    dtype, (rows, columns) = LU_data.dtype, LU_data.shape[-2:]
    permutation, lower, upper = (b.empty(dtype, b.result_type(number).shape) for number in range(3))
    if unpack_data:
        matrices = flatten_batch(b, LU_data)
        batch, count = matrices.shape[0], min(rows, columns)

        def below(value: ScalarExpr) -> ScalarExpr:
            i, j = b.index(1), b.index(2)
            return e.where(i.eq(j), 1, e.where(i > j, value, 0))

        def above(value: ScalarExpr) -> ScalarExpr:
            return e.where(b.index(1) > b.index(2), 0, value)

        lower = b.pointwise(
            below, [matrices.slice(2, 0, count)], TensorType(dtype, (batch, rows, count))
        )
        upper = b.pointwise(
            above, [matrices.slice(1, 0, count)], TensorType(dtype, (batch, count, columns))
        )
        lower, upper = (
            b.reshape(lower, b.result_type(1).shape),
            b.reshape(upper, b.result_type(2).shape),
        )
    if unpack_pivots:
        order = _order_of(b, flatten_batch(b, LU_pivots, 1), rows)

        def one(index: ScalarExpr) -> ScalarExpr:
            return e.where(index.eq(b.index(1)), b.constant(1, dtype), b.constant(0, dtype))

        result = b.pointwise(
            one, [order.unsqueeze(1)], TensorType(dtype, (order.shape[0], rows, rows))
        )
        permutation = b.reshape(result, b.result_type(0).shape)
    return permutation, lower, upper
