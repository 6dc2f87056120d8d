"""Systems with triangular matrices."""

from __future__ import annotations

from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.gaussian_elimination import DTYPES, SOLUTIONS, as_batch, substitute
from ftm_backend.frontend.oplib.op_record import lowering


@lowering("aten::linalg_solve_triangular", DTYPES, "solve_triangular", SOLUTIONS)
def _solve_triangular(
    b: LinalgBuilder,
    self: StridedValue,
    B: StridedValue,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> StridedValue:  # noqa: N803
    """X with ``self @ X = B``, or with ``X @ self = B`` if not ``left``; batches broadcast."""
    shape = b.result.shape
    right = B.expand(shape)
    triangle = self.expand((*shape[:-2], *self.shape[-2:]))
    if left:
        return b.reshape(
            substitute(
                b, as_batch(b, triangle), as_batch(b, right), upper=upper, unit=unitriangular
            ),
            shape,
        )
    turned = right.transpose()
    solved = substitute(
        b,
        as_batch(b, triangle.transpose()),
        as_batch(b, turned),
        upper=not upper,
        unit=unitriangular,
    )
    return b.reshape(solved, turned.shape).transpose()


@lowering("aten::triangular_solve", DTYPES, "triangular_solve", SOLUTIONS)
def _triangular_solve(
    b: LinalgBuilder,
    self: StridedValue,
    A: StridedValue,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> tuple[StridedValue, StridedValue]:  # noqa: N803
    """(X with ``A @ X = self``, a copy of A)."""
    shape, copied = b.result.shape, A.expand(b.wanted(1).shape)
    triangle = copied.transpose() if transpose else copied
    solved = substitute(
        b,
        as_batch(b, triangle),
        as_batch(b, self.expand(shape)),
        upper=upper != transpose,
        unit=unitriangular,
    )
    return b.reshape(solved, shape), copied
