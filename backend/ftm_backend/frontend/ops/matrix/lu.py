"""LU factorization with partial pivoting, and systems that are solved with it.

Pivots are LAPACK's: in step k, row k changes places with row ``pivots[k] - 1``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.gaussian_elimination import (
    DTYPES,
    SOLUTIONS,
    as_batch,
    column,
    places,
    row,
    rows_at,
    steps,
    substitute,
)
from ftm_backend.frontend.oplib.op_record import lowering
from ftm_backend.frontend.oplib.reductions import extreme_index
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.frontend.sequential_loop import LoopIteration
from ftm_backend.ir.trace.trace import TensorType


@lowering("aten::linalg_lu_factor_ex", DTYPES, "lu_factor", SOLUTIONS)
def _lu_factor_ex(
    b: LinalgBuilder, A: StridedValue, pivot: bool, check_errors: bool
) -> tuple[StridedValue, StridedValue, StridedValue]:  # noqa: N803
    """(L below the diagonal and U, pivots, for each matrix 0 or the first step whose pivot is 0,
    counted from 1).

    The recorder checks errors (csrc/kernels/linear_algebra.cpp).
    """
    matrices = as_batch(b, A)
    batch, rows, columns = matrices.shape
    count = min(rows, columns)

    def step(
        at: LoopIteration, k: StridedValue, states: Sequence[StridedValue]
    ) -> list[StridedValue]:
        matrix, failed, pivots = states
        own = column(b, matrix, k)
        chosen = b.pointwise(lambda number: number, [k], TensorType("i64", (batch, 1)))
        if pivot:

            def candidate(value: ScalarExpr, number: ScalarExpr) -> ScalarExpr:
                return e.where(b.index(1) < number, -1, abs(value))

            _, chosen = extreme_index(
                b, "max", b.pointwise(candidate, [own, k], TensorType(own.dtype, own.shape)), 1
            )
        upper, replaced = row(b, matrix, chosen), row(b, matrix, k)
        divisor, moved = row(b, own.unsqueeze(2), chosen), row(b, own.unsqueeze(2), k)

        def factor(
            value: ScalarExpr,
            at_pivot: ScalarExpr,
            at_k: ScalarExpr,
            number: ScalarExpr,
            place: ScalarExpr,
        ) -> ScalarExpr:
            value = e.where(b.index(1).eq(place), at_k, value)
            return e.where(at_pivot.eq(0), value, value / at_pivot)

        factors = b.pointwise(
            factor, [own, divisor, moved, k, chosen], TensorType(own.dtype, own.shape)
        )

        def updated(
            value: ScalarExpr,
            left: ScalarExpr,
            right: ScalarExpr,
            old: ScalarExpr,
            number: ScalarExpr,
            place: ScalarExpr,
        ) -> ScalarExpr:
            i, j = b.index(1), b.index(2)
            value = e.where(i.eq(place), old, value)
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

        def noted(seen: ScalarExpr, place: ScalarExpr, number: ScalarExpr) -> ScalarExpr:
            return e.where(b.index(1).eq(number), (place + 1).to("i32"), seen)

        return [
            matrix,
            failed,
            b.pointwise(noted, [pivots, chosen, k], TensorType("i32", (batch, count))),
        ]

    states = [matrices, b.full(0, "i32", (batch, 1)), b.full(0, "i32", (batch, count))]
    factors, failed, pivots = steps(b, count, states, step)
    shapes = [b.wanted(number).shape for number in range(3)]
    return b.reshape(factors, shapes[0]), b.reshape(pivots, shapes[1]), b.reshape(failed, shapes[2])


def _order_of(
    b: LinalgBuilder, pivots: StridedValue, rows: int, *, inverse: bool = False
) -> StridedValue:
    """[batch, rows]: which row each row of P.mT @ A is of A, from pivots [batch, count]; inverse:
    of P @ A."""
    batch, count = pivots.shape
    swaps = pivots.transpose(0, 1)

    def step(
        at: LoopIteration, k: StridedValue, states: Sequence[StridedValue]
    ) -> list[StridedValue]:
        (order,) = states
        chosen = at.row(swaps, *((count - 1, -1) if inverse else (0, 1)))
        other = b.pointwise(
            lambda place: place.to("i64") - 1, [chosen.unsqueeze(1)], TensorType("i64", (batch, 1))
        )
        first, second = row(b, order.unsqueeze(2), k), row(b, order.unsqueeze(2), other)

        def swapped(
            value: ScalarExpr,
            at_k: ScalarExpr,
            at_other: ScalarExpr,
            number: ScalarExpr,
            place: ScalarExpr,
        ) -> ScalarExpr:
            i = b.index(1)
            return e.where(i.eq(number), at_other, e.where(i.eq(place), at_k, value))

        return [
            b.pointwise(swapped, [order, first, second, k, other], TensorType("i64", (batch, rows)))
        ]

    return steps(b, count, [places(b, batch, rows)], step, backwards=inverse)[0]


@lowering("aten::linalg_lu_solve", (*DTYPES, "i32"), "lu_solve", SOLUTIONS)
def _lu_solve(
    b: LinalgBuilder,
    LU: StridedValue,
    pivots: StridedValue,
    B: StridedValue,
    left: bool,
    adjoint: bool,
) -> StridedValue:  # noqa: N803
    """X with ``A @ X = B`` for A = P @ L @ U; adjoint: with A.mT; not left: with ``X @ A = B``.
    Batches broadcast."""
    shape = b.result.shape
    outer = shape[:-2]
    right = B.expand(shape)
    factors = as_batch(b, LU.expand((*outer, *LU.shape[-2:])))
    swaps = as_batch(b, pivots.expand((*outer, pivots.shape[-1])), 1)
    turned = right if left else right.transpose()
    rhs = as_batch(b, turned)
    if adjoint == left:  # A.mT @ X = B, or the transpose of X @ A = B
        half = substitute(b, factors.transpose(), rhs, upper=False)
        whole = substitute(b, factors.transpose(), half, upper=True, unit=True)
        solved = rows_at(b, whole, _order_of(b, swaps, rhs.shape[1], inverse=True))
    else:
        half = substitute(
            b, factors, rows_at(b, rhs, _order_of(b, swaps, rhs.shape[1])), upper=False, unit=True
        )
        solved = substitute(b, factors, half, upper=True)
    solved = b.reshape(solved, turned.shape)
    return solved if left else solved.transpose()


@lowering("aten::lu_unpack", (*DTYPES, "i32"), "lu_unpack", SOLUTIONS)
def _lu_unpack(
    b: LinalgBuilder,
    LU_data: StridedValue,
    LU_pivots: StridedValue,
    unpack_data: bool,
    unpack_pivots: bool,  # noqa: N803
) -> tuple[StridedValue, StridedValue, StridedValue]:
    """(P, L, U); empty where they are not asked for."""
    dtype, (rows, columns) = LU_data.dtype, LU_data.shape[-2:]
    permutation, lower, upper = (b.empty(dtype, b.wanted(number).shape) for number in range(3))
    if unpack_data:
        matrices = as_batch(b, LU_data)
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
        lower, upper = b.reshape(lower, b.wanted(1).shape), b.reshape(upper, b.wanted(2).shape)
    if unpack_pivots:
        order = _order_of(b, as_batch(b, LU_pivots, 1), rows)

        def one(place: ScalarExpr) -> ScalarExpr:
            return e.where(place.eq(b.index(1)), b.constant(1, dtype), b.constant(0, dtype))

        made = b.pointwise(
            one, [order.unsqueeze(1)], TensorType(dtype, (order.shape[0], rows, rows))
        )
        permutation = b.reshape(made, b.wanted(0).shape)
    return permutation, lower, upper
