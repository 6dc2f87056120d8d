"""Lowerings of matrix algorithms that iterate over rows or columns, such as factorizations.

Each iteration updates whole matrices. The machine has no loops whose bounds depend on an outer
loop, so an iteration computes all elements and selects the old value for those that the algorithm
leaves unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, LoopOutput, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.frontend.sequential_loop import LoopIteration, repeat
from ftm_backend.ir.trace.trace import TensorType

__all__ = [
    "DTYPES",
    "SOLUTION_TOLERANCE",
    "extract_column",
    "extract_row",
    "flatten_batch",
    "gather_rows",
    "iterate",
    "row_indices",
    "solve_triangular",
]


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


def solve_triangular(
    b: LinalgBuilder,
    triangle: StridedValue,
    right: StridedValue,
    *,
    upper: bool,
    unit: bool = False,
) -> StridedValue:
    """Solve triangular systems ``triangle @ X = right``.

    Args:
        b: The builder.
        triangle: [batch, n, n]; the other triangle is not read.
        right: [batch, n, columns].
        upper: Whether `triangle` is upper triangular.
        unit: Take the diagonal as ones.

    Returns:
        X, [batch, n, columns].
    """
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
            solved = b.pointwise(
                lambda value, divisor: value / divisor,
                [solved, pivot],
                TensorType(x.dtype, solved.shape),
            )

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
