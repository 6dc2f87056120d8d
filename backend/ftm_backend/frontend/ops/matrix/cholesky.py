"""Op records of Cholesky factorization and its linear systems."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.gaussian_elimination import (
    DTYPES,
    SOLUTION_TOLERANCE,
    block_limit,
    extract_column,
    extract_row,
    flatten_batch,
    half_of,
    iterate,
    join_blocks,
    solve_triangular,
    subtract_product,
)
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.frontend.sequential_loop import LoopIteration
from ftm_backend.ir.trace.trace import TensorType


@lowering("aten::linalg_cholesky_ex", DTYPES, "cholesky", SOLUTION_TOLERANCE)
def _cholesky_ex(
    b: LinalgBuilder, self: StridedValue, upper: bool
) -> tuple[StridedValue, StridedValue]:
    """Return the factor, and an error code for each matrix.

    The code is 0, or the order of the first leading minor that is not positive. The recorder checks
    it (csrc/kernels/linear_algebra.cpp).
    """
    matrices = flatten_batch(b, self.transpose() if upper else self)
    result, failed = _factorize(b, matrices, block_limit(matrices.shape[1]))

    def triangle(value: ScalarExpr) -> ScalarExpr:
        return e.where(b.index(2) > b.index(1), 0, value)

    factor = b.reshape(b.pointwise(triangle, [result]), b.result.shape)
    return factor.transpose() if upper else factor, b.reshape(failed, b.result_type(1).shape)


def _factorize(
    b: LinalgBuilder, matrices: StridedValue, limit: int
) -> tuple[StridedValue, StridedValue]:
    """Return the factors, with anything above the diagonal, and the error codes [batch, 1]."""
    n = matrices.shape[1]
    half = half_of(n, limit)
    if not half:
        return _factorize_by_columns(b, matrices)
    top, bottom = matrices.slice(1, 0, half), matrices.slice(1, half, n - half)
    first, first_failed = _factorize(b, top.slice(2, 0, half), limit)
    left = bottom.slice(2, 0, half).transpose()
    across = solve_triangular(b, first, left, upper=False, limit=limit).transpose()
    rest = subtract_product(b, bottom.slice(2, half, n - half), across, across.transpose())
    second, second_failed = _factorize(b, rest, limit)
    failed = b.pointwise(
        lambda code, later: e.where(code.eq(0) & later.ne(0), later + half, code),
        [first_failed, second_failed],
    )
    return join_blocks(b, [[first, top.slice(2, half, n - half)], [across, second]]), failed


def _factorize_by_columns(
    b: LinalgBuilder, matrices: StridedValue
) -> tuple[StridedValue, StridedValue]:
    batch, n, _ = matrices.shape
    shape = (batch, n, n)

    def step(
        at: LoopIteration, k: StridedValue, states: Sequence[StridedValue]
    ) -> list[StridedValue]:
        lower, failed = states
        own = extract_column(b, lower, k)
        pivot = extract_row(b, own.unsqueeze(2), k)
        at_k = k.unsqueeze(0)

        def failure(seen: ScalarExpr, value: ScalarExpr, number: ScalarExpr) -> ScalarExpr:
            return e.where(seen.eq(0) & ~(value > 0), (number + 1).to("i32"), seen)

        failed = b.pointwise(failure, [failed, pivot, at_k], TensorType("i32", (batch, 1)))
        factors = b.pointwise(
            lambda value, square: value / e.sqrt(square),
            [own, pivot],
            TensorType(lower.dtype, (batch, n)),
        )

        def updated(
            value: ScalarExpr, left: ScalarExpr, right: ScalarExpr, number: ScalarExpr
        ) -> ScalarExpr:
            i, j = b.index(1), b.index(2)
            return e.where(
                j.eq(number),
                left,
                e.where((i > number) & (j > number), value - left * right, value),
            )

        inputs = [lower, factors.unsqueeze(2), factors.unsqueeze(1), k]
        return [b.pointwise(updated, inputs, TensorType(lower.dtype, shape)), failed]

    result, failed = iterate(b, n, [matrices, b.full(0, "i32", (batch, 1))], step)
    return result, failed


@lowering("aten::_cholesky_solve_helper", DTYPES, "cholesky_solve", SOLUTION_TOLERANCE)
def _cholesky_solve(
    b: LinalgBuilder, self: StridedValue, A: StridedValue, upper: bool
) -> StridedValue:  # noqa: N803  (the schema's name)
    """Return X with ``L @ L.mT @ X = self``."""
    lower = flatten_batch(b, A.transpose() if upper else A)
    half = solve_triangular(b, lower, flatten_batch(b, self), upper=False)
    return b.reshape(solve_triangular(b, lower.transpose(), half, upper=True), b.result.shape)


@lowering("aten::cholesky_inverse", DTYPES, "cholesky_inverse", SOLUTION_TOLERANCE)
def _cholesky_inverse(b: LinalgBuilder, self: StridedValue, upper: bool) -> StridedValue:
    """Return the inverse of ``L @ L.mT``."""
    lower = flatten_batch(b, self.transpose() if upper else self)
    batch, n, _ = lower.shape
    unit = b.pointwise(
        lambda: e.where(
            b.index(1).eq(b.index(2)), b.constant(1, self.dtype), b.constant(0, self.dtype)
        ),
        [],
        TensorType(self.dtype, (batch, n, n)),
    )
    half = solve_triangular(b, lower, unit, upper=False)
    return b.reshape(solve_triangular(b, lower.transpose(), half, upper=True), b.result.shape)
