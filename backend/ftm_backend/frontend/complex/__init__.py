"""Complex numbers: a trace with them becomes one without; see `pairs.py`."""

from ftm_backend.frontend.complex import arithmetic, fft, index, moves  # noqa: F401  (registers the rewrites)
from ftm_backend.frontend.complex.pairs import OPS, as_pairs

__all__ = ["OPS", "as_pairs"]
