"""Elimination: algorithms on matrices that take one step for each row or column, as factorizations
do.

Each step updates whole matrices. The machine has no loops whose bounds depend on an outer loop, so
a step computes all elements and keeps those that the algorithm does not touch.
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
    "SOLUTIONS",
    "as_batch",
    "column",
    "places",
    "row",
    "rows_at",
    "steps",
    "substitute",
]


DTYPES = ("f32", "f64")
"""What such algorithms are computed in: as on the CPU, no half types."""

SOLUTIONS = {"f64": (1e-8, 1e-9), "f32": (2e-3, 2e-4)}
"""(relative, absolute) tolerance. Solutions lose digits by the condition number, which is some 100
in the tests."""


def steps(
    b: LinalgBuilder,
    count: int,
    states: Sequence[StridedValue],
    step: Callable[[LoopIteration, StridedValue, Sequence[StridedValue]], Sequence[StridedValue]],
    *,
    backwards: bool = False,
) -> list[StridedValue]:
    """Updates ``states`` in ``count`` steps.

    Args:
        count: Without steps, the states are the results. step: From the iteration, its number (an
        i64 Value of one element) and the states to the new states. backwards: Number the iterations
        from the last to the first.
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

    made = repeat(b, count, [b.reshape(state, (1, *state.shape)) for state in states], body)
    return [b.reshape(result, result.shape[1:]) for result in made]


def as_batch(b: LinalgBuilder, x: StridedValue, rank: int = 2) -> StridedValue:
    """``x`` with its dimensions before the last ``rank`` as one."""
    return b.reshape(x, (math.prod(x.shape[: x.rank - rank]), *x.shape[x.rank - rank :]))


def places(b: LinalgBuilder, batch: int, length: int) -> StridedValue:
    """[batch, length] of the positions in each row, i64."""
    (made,) = b.generic(
        (batch, length), [], [LoopOutput("i64", (batch, length), (0, 1))], lambda: b.index(1)
    )
    return made


def row(b: LinalgBuilder, matrix: StridedValue, k: StridedValue) -> StridedValue:
    """[batch, columns]: row ``k`` of matrices [batch, rows, columns]; ``k`` is [1], or [batch, 1]
    for a row of each."""
    batch, _, columns = matrix.shape
    return b.pointwise(
        lambda at: b.extract(matrix, [b.index(0), at, b.index(1)]),
        [k],
        TensorType(matrix.dtype, (batch, columns)),
    )


def column(b: LinalgBuilder, matrix: StridedValue, k: StridedValue) -> StridedValue:
    """[batch, rows]: column ``k`` of matrices [batch, rows, columns]."""
    batch, rows, _ = matrix.shape
    return b.pointwise(
        lambda at: b.extract(matrix, [b.index(0), b.index(1), at]),
        [k],
        TensorType(matrix.dtype, (batch, rows)),
    )


def rows_at(b: LinalgBuilder, matrix: StridedValue, order: StridedValue) -> StridedValue:
    """[batch, rows, columns]: row ``order[i]`` of each matrix as row i."""
    batch, _, columns = matrix.shape
    shape = (batch, order.shape[1], columns)
    return b.pointwise(
        lambda at: b.extract(matrix, [b.index(0), at, b.index(2)]),
        [order.unsqueeze(2).expand(shape)],
        TensorType(matrix.dtype, shape),
    )


def substitute(
    b: LinalgBuilder,
    triangle: StridedValue,
    right: StridedValue,
    *,
    upper: bool,
    unit: bool = False,
) -> StridedValue:
    """Solves triangular systems: ``triangle @ X = right``.

    Args:
        triangle: [batch, n, n]; the other triangle is not read.
        right: [batch, n, columns].
        upper: Whether the upper triangle counts, or the lower one.
        unit: Take the diagonal as ones.
    """
    batch, n, columns = right.shape
    coefficients = triangle.permute([2, 0, 1])  # by columns

    def step(
        at: LoopIteration, k: StridedValue, states: Sequence[StridedValue]
    ) -> list[StridedValue]:
        (x,) = states
        factors = at.row(coefficients, *((n - 1, -1) if upper else (0, 1)))
        solved = row(b, x, k)
        if not unit:
            pivot = row(b, factors.unsqueeze(2), k)
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

    return steps(b, n, [right], step, backwards=upper)[0]
