"""Op records of reductions, scans, histograms and segment reductions."""

from ftm_backend.frontend.ops.reduce import cumulative, histogram, reduction, segment_reduce  # noqa: F401  (registers the records)
