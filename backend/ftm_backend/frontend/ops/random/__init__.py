"""Op records of random numbers and random choices."""

from ftm_backend.frontend.ops.random import distributions, sampling  # noqa: F401  (registers the records)
