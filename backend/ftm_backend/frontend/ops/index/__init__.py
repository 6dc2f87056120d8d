"""Index: reading, writing, searching and sorting, where places are data."""

from ftm_backend.frontend.ops.index import gather, index_put, masks, scatter, searchsorted, sort  # noqa: F401  (registers the records)
