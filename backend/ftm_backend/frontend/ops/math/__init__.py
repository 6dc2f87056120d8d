"""Op records of mathematics: elementwise functions, arithmetic, special functions, matmul."""

from ftm_backend.frontend.ops.math import (  # noqa: F401  (registers the records)
    arithmetic,
    bessel,
    chebyshev_polynomials,
    elementwise,
    gamma,
    integer_math,
    matmul,
    normal_distribution,
)
