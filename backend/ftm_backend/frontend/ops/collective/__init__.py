"""Op records of collectives: communication with other processes."""

from ftm_backend.frontend.ops.collective import collective  # noqa: F401  (registers the records)
