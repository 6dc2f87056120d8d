"""Op records of triangular linear systems."""

from __future__ import annotations

from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.gaussian_elimination import (
    DTYPES,
    SOLUTION_TOLERANCE,
    flatten_batch,
    solve_triangular,
)
from ftm_backend.frontend.oplib.op_registry import lowering


@lowering("aten::linalg_solve_triangular", DTYPES, "solve_triangular", SOLUTION_TOLERANCE)
def _solve_triangular(
    b: LinalgBuilder,
    self: StridedValue,
    B: StridedValue,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> StridedValue:  # noqa: N803
    """Return X with ``self @ X = B``, or ``X @ self = B`` without `left`; batches broadcast."""
    shape = b.result.shape
    right = B.expand(shape)
    triangle = self.expand((*shape[:-2], *self.shape[-2:]))
    if not left:
        triangle, right = triangle.transpose(), right.transpose()
    solved = solve_triangular(
        b,
        flatten_batch(b, triangle),
        flatten_batch(b, right),
        upper=upper == left,
        unit=unitriangular,
    )
    solved = b.reshape(solved, right.shape)
    return solved if left else solved.transpose()


@lowering("aten::triangular_solve", DTYPES, "triangular_solve", SOLUTION_TOLERANCE)
def _triangular_solve(
    b: LinalgBuilder,
    self: StridedValue,
    A: StridedValue,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> tuple[StridedValue, StridedValue]:  # noqa: N803
    """Return X with ``A @ X = self``, and a copy of A."""
    shape, copied = b.result.shape, A.expand(b.result_type(1).shape)
    triangle = copied.transpose() if transpose else copied
    solved = solve_triangular(
        b,
        flatten_batch(b, triangle),
        flatten_batch(b, self.expand(shape)),
        upper=upper != transpose,
        unit=unitriangular,
    )
    return b.reshape(solved, shape), copied
