"""Shape: views, tensors made of numbers alone, and what moves elements without looking at them."""

from ftm_backend.frontend.ops.shape import data_movement, factories, views  # noqa: F401  (registers the records)
