"""What is known about gaps: what is not right yet and why, and why some operations run on the CPU."""

from __future__ import annotations

import re

__all__ = ["FALLBACKS", "GAPS", "fallback_reason", "reason"]

_SPARSE = "makes or takes sparse tensors, which exist on the CPU only: PyTorch has no fallback between layouts"

GAPS: dict[tuple[str, str, str], str] = {
    ("sparse_sampled_addmm", "*", "*"): _SPARSE,
    ("sparse_mm_reduce", "*", "*"): _SPARSE,
    ("to_sparse", "*", "*"): _SPARSE,
    ("SparseAdam", "*", "*"): _SPARSE,
    ("nn_functional_avg_pool3d", "*", "out"): "the CPU's own result into a strided `out` is not its functional result",
}
"""By entry, dtype and check, of which the last two may be "*": why it is not right."""

FALLBACKS = {
    r"aten::(nonzero|masked_select|_unique.*|unique_.*|argwhere).*": "the shape of the result depends on values",
    r"aten::.*(lu_|cholesky|qr|svd|eig|lstsq|ldl|householder|ormqr|geqrf|linalg_solve|triangular|linalg_inv|det).*": (
        "a matrix factorization, which LAPACK does on the CPU"
    ),
    r"aten::.*(sparse|coalesce).*": "sparse tensors live on the CPU",
    r"aten::_fft_.*": "a Fourier transform",
}
"""Why operations run on the CPU: the first pattern that matches the name of the operation."""

_PATTERNS = {re.compile(pattern): why for pattern, why in FALLBACKS.items()}


def reason(entry: str, dtype: str, check: str) -> str | None:
    """Why the check is not right, if that is known."""
    for key in ((entry, dtype, check), (entry, "*", check), (entry, dtype, "*"), (entry, "*", "*")):
        if key in GAPS:
            return GAPS[key]
    return None


def fallback_reason(operation: str) -> str | None:
    """Why `operation` runs on the CPU, if there is more to say than that it has no record."""
    return next((why for pattern, why in _PATTERNS.items() if pattern.fullmatch(operation)), None)
