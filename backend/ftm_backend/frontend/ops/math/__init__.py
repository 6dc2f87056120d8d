"""Mathematics: elementwise functions, arithmetic, special functions, matrix products."""

from ftm_backend.frontend.ops.math import (  # noqa: F401  (registers the records)
    arithmetic,
    bessel,
    contract,
    elementwise,
    gamma,
    integers,
    polynomials,
    probability,
)
