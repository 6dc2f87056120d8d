"""Op records with data-dependent indices: gather, scatter, search and sort."""

from ftm_backend.frontend.ops.index import gather, index_put, masks, scatter, searchsorted, sort  # noqa: F401  (registers the records)
