"""Lowerings of matrix algorithms that iterate over rows or columns, such as factorizations.

Each iteration updates whole matrices. The machine has no loops whose bounds depend on an outer
loop, so an iteration computes all elements and selects the old value for those that the algorithm
leaves unchanged.

Large matrices are halved first, so that most of the work is products of blocks. Example, for a
Cholesky factorization: factor the top left block, solve for the bottom left block, subtract its
product with itself from the bottom right block, and factor that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.oplib.concat import concat
from ftm_backend.frontend.oplib.matmul import matmul
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.frontend.sequential_loop import LoopIteration, repeat
from ftm_backend.ir.trace.trace import TensorType

DTYPES = ("f32", "f64")
"""Dtypes of these algorithms; like PyTorch's CPU kernels, no half types."""

SOLUTION_TOLERANCE = {"f64": (1e-8, 1e-9), "f32": (2e-3, 2e-4)}
"""Relative and absolute tolerance. Solutions lose digits in proportion to the condition number,
about 100 in the tests."""


def iterate(
    b: LinalgBuilder,
    count: int,
    states: Sequence[StridedValue],
    step: Callable[[LoopIteration, StridedValue, Sequence[StridedValue]], Sequence[StridedValue]],
    *,
    backwards: bool = False,
) -> list[StridedValue]:
    """Update `states` in `count` iterations.

    Args:
        b: The builder.
        count: Number of iterations; 0 returns `states`.
        states: Initial values.
        step: From the iteration, its number (an i64 tensor of one element) and the states to the
            new states.
        backwards: Number the iterations from last to first.

    Returns:
        The final states.
    """
    if not count or not all(state.type.numel for state in states):
        return list(states)
    first, increment = (count - 1, -1) if backwards else (0, 1)
    (numbers,) = b.generic(
        (count, 1), [], [LoopOutput("i64", (count, 1), (0, 1))], lambda: b.index(0)
    )

    def body(at: LoopIteration) -> None:
        k = at.row(numbers, first, increment)
        for number, state in enumerate(
            step(at, k, [at.result_row(number, 0, 0) for number in range(len(states))])
        ):
            at.store(number, 0, 0, state)

    output = repeat(b, count, [b.reshape(state, (1, *state.shape)) for state in states], body)
    return [b.reshape(result, result.shape[1:]) for result in output]


def flatten_batch(b: LinalgBuilder, x: StridedValue, rank: int = 2) -> StridedValue:
    """Flatten the dimensions before the last `rank` into one."""
    return b.reshape(x, (math.prod(x.shape[: x.rank - rank]), *x.shape[x.rank - rank :]))


def row_indices(b: LinalgBuilder, batch: int, length: int) -> StridedValue:
    """Return an i64 tensor [batch, length] with the position in each row."""
    (result,) = b.generic(
        (batch, length), [], [LoopOutput("i64", (batch, length), (0, 1))], lambda: b.index(1)
    )
    return result


def extract_row(b: LinalgBuilder, matrix: StridedValue, k: StridedValue) -> StridedValue:
    """Return row `k` of matrices [batch, rows, columns], as [batch, columns].

    `k` is [1], or [batch, 1] for a different row of each matrix.
    """
    batch, _, columns = matrix.shape
    return b.pointwise(
        lambda at: b.extract(matrix, [b.index(0), at, b.index(1)]),
        [k],
        TensorType(matrix.dtype, (batch, columns)),
    )


def extract_column(b: LinalgBuilder, matrix: StridedValue, k: StridedValue) -> StridedValue:
    """Return column `k` of matrices [batch, rows, columns], as [batch, rows]."""
    batch, rows, _ = matrix.shape
    return b.pointwise(
        lambda at: b.extract(matrix, [b.index(0), b.index(1), at]),
        [k],
        TensorType(matrix.dtype, (batch, rows)),
    )


def gather_rows(b: LinalgBuilder, matrix: StridedValue, order: StridedValue) -> StridedValue:
    """Permute rows: row i of each result [batch, rows, columns] is row ``order[i]``."""
    batch, _, columns = matrix.shape
    shape = (batch, order.shape[1], columns)
    return b.pointwise(
        lambda at: b.extract(matrix, [b.index(0), at, b.index(2)]),
        [order.unsqueeze(2).expand(shape)],
        TensorType(matrix.dtype, shape),
    )


_BLOCK = 64  # rows below which iterations over them are faster than products of blocks
_BLOCKS = 8  # at most; each is code of its own


def block_limit(n: int) -> int:
    """Return how many rows or columns of a matrix of `n` are eliminated one by one."""
    # A program for many sizes has one form for all.
    return max(_BLOCK, -(-n // _BLOCKS)) if isinstance(n, int) else n


def half_of(n: int, limit: int) -> int:
    """Return where to divide `n` rows into two blocks; 0 if there are at most `limit`."""
    return 0 if n is limit or n <= limit else -(-n // (2 * limit)) * limit


def subtract_product(
    b: LinalgBuilder, x: StridedValue, left: StridedValue, right: StridedValue
) -> StridedValue:
    """Return ``x - left @ right`` of matrices [batch, rows, columns]."""
    return b.pointwise(lambda value, part: value - part, [x, matmul(b, left, right)])


def join_blocks(b: LinalgBuilder, rows: Sequence[Sequence[StridedValue]]) -> StridedValue:
    """Return the matrices [batch, rows, columns] of these blocks."""
    return concat(b, [concat(b, row, 2) for row in rows], 1)


def solve_triangular(
    b: LinalgBuilder,
    triangle: StridedValue,
    right: StridedValue,
    *,
    upper: bool,
    unit: bool = False,
    limit: int | None = None,
) -> StridedValue:
    """Solve triangular systems ``triangle @ X = right``.

    Args:
        b: The builder.
        triangle: [batch, n, n]; the other triangle is not read.
        right: [batch, n, columns].
        upper: Whether `triangle` is upper triangular.
        unit: Take the diagonal as ones.
        limit: See `block_limit`.

    Returns:
        X, [batch, n, columns].
    """
    n = right.shape[1]
    limit = block_limit(n) if limit is None else limit
    half = half_of(n, limit)
    if not half:
        return _solve_by_rows(b, triangle, right, upper=upper, unit=unit)
    blocks = (0, half), (half, n - half)
    first, second = reversed(blocks) if upper else blocks

    def solve(block: tuple[int, int], of: StridedValue) -> StridedValue:
        own = triangle.slice(1, *block).slice(2, *block)
        return solve_triangular(b, own, of, upper=upper, unit=unit, limit=limit)

    known = solve(first, right.slice(1, *first))
    coupling = triangle.slice(1, *second).slice(2, *first)
    solved = solve(second, subtract_product(b, right.slice(1, *second), coupling, known))
    return concat(b, [solved, known] if upper else [known, solved], 1)


def _solve_by_rows(
    b: LinalgBuilder, triangle: StridedValue, right: StridedValue, *, upper: bool, unit: bool
) -> StridedValue:
    """Solve triangular systems, one row of X in each iteration."""
    batch, n, columns = right.shape
    coefficients = triangle.permute([2, 0, 1])  # by columns

    def step(
        at: LoopIteration, k: StridedValue, states: Sequence[StridedValue]
    ) -> list[StridedValue]:
        (x,) = states
        factors = at.row(coefficients, *((n - 1, -1) if upper else (0, 1)))
        solved = extract_row(b, x, k)
        if not unit:
            pivot = extract_row(b, factors.unsqueeze(2), k)
            solved = b.pointwise(lambda value, divisor: value / divisor, [solved, pivot])

        def updated(
            value: ScalarExpr, factor: ScalarExpr, known: ScalarExpr, at_k: ScalarExpr
        ) -> ScalarExpr:
            i = b.index(1)
            later = i < at_k if upper else i > at_k
            return e.where(i.eq(at_k), known, e.where(later, value - factor * known, value))

        return [
            b.pointwise(
                updated,
                [x, factors.unsqueeze(2), solved.unsqueeze(1), k],
                TensorType(x.dtype, (batch, n, columns)),
            )
        ]

    return iterate(b, n, [right], step, backwards=upper)[0]
