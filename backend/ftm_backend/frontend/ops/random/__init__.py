"""Random numbers and random choices."""

from ftm_backend.frontend.ops.random import (  # noqa: F401  (registers the records)
    random,
    sampling,
)
