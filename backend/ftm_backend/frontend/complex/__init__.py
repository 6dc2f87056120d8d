"""Transform: replace complex tensors in a trace by real ones; see `split_real_imag.py`."""

from ftm_backend.frontend.complex import arithmetic, data_movement, fft, per_component  # noqa: F401  (registers the rewrites)
from ftm_backend.frontend.complex.split_real_imag import OPS, expand_complex

__all__ = ["OPS", "expand_complex"]
