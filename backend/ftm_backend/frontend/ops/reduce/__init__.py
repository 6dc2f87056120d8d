"""Reduce: reductions, running combinations, histograms, segments."""

from ftm_backend.frontend.ops.reduce import (  # noqa: F401  (registers the records)
    histogram,
    reduction,
    scan,
    segments,
)
