"""Transform: replace complex tensors in a trace by real ones; see `complex_to_real.py`."""

from ftm_backend.frontend.complex import arithmetic, data_movement, fft, per_component  # noqa: F401  (registers the rewrites)
from ftm_backend.frontend.complex.complex_to_real import OPS, expand_complex

__all__ = ["OPS", "expand_complex"]
