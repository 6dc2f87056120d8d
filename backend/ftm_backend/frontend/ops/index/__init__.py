"""Index: reading, writing, searching and sorting, where places are data."""

from ftm_backend.frontend.ops.index import (  # noqa: F401  (registers the records)
    index_put,
    indexing,
    masks,
    scatter,
    search,
    sort,
)
