"""Op records of matrix factorizations and linear systems."""

from ftm_backend.frontend.ops.matrix import (  # noqa: F401  (registers the records)
    cholesky,
    lu,
    triangular,
)
