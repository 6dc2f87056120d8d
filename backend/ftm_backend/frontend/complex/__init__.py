"""Complex numbers: a trace with them becomes one without; see `pairs.py`."""

from ftm_backend.frontend.complex import arithmetic, data_movement, fft, indexing  # noqa: F401  (registers the rewrites)
from ftm_backend.frontend.complex.split_real_imag import OPS, as_pairs

__all__ = ["OPS", "as_pairs"]
