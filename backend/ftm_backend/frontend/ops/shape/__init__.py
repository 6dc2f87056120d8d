"""Op records of views, factories, and ops that only move elements."""

from ftm_backend.frontend.ops.shape import data_movement, factories, views  # noqa: F401  (registers the records)
