"""Known gaps with their reasons, and why some operations run on the CPU."""

from __future__ import annotations

import re

__all__ = ["COMPILED", "FALLBACKS", "GAPS", "NOT_COMPILED", "fallback_reason", "reason"]

_POLES = "at a pole, an integer below 1, it is inf; the CPU gives what rounding leaves of it, such as 2e15"
_POLYGAMMA = (
    "special_polygamma_special_polygamma_n_0",
    *(f"polygamma_polygamma_n_{n}" for n in range(5)),
)

GAPS: dict[tuple[str, str, str], str] = {
    **{(entry, dtype, "forward"): _POLES for entry in _POLYGAMMA for dtype in ("int8", "int16")},
    ("fft_ihfft2", "*", "out"): "an empty `out` stays empty where one dimension is transformed",
    ("fft_ihfftn", "*", "out"): "an empty `out` stays empty where one dimension is transformed",
}
"""Why a check fails, by entry, dtype and check; "*" stands for any dtype or check."""

COMPILED: dict[str, str] = {}
"""By entry: why it is not right under `torch.compile`, though it is on the device."""

_READS = "Dynamo makes no graph of an operation that reads a value to decide (`equal`, `allclose`), whatever the backend"
_NO_META = "PyTorch has no meta kernel for the operation, so that Dynamo makes no graph of it, whatever the backend"
_NO_SPARSE = "Dynamo makes no graph with sparse tensors, whatever the backend"
_NO_RESIZE = "Dynamo makes no graph of a tensor that is resized, whatever the backend"

NOT_COMPILED = {
    "allclose": _READS,
    "equal": _READS,
    "cov": _READS,
    "corrcoef": _READS,
    "nn_functional_gaussian_nll_loss": "Dynamo makes no graph of its check of the variance's values, whatever the backend",
    "nn_functional_ctc_loss": _NO_META,
    "linalg_lstsq": _NO_META,
    "linalg_lstsq_grad_oriented": _NO_META,
    "sparse_sampled_addmm": _NO_SPARSE,
    "sparse_mm_reduce": _NO_SPARSE,
    "to_sparse": _NO_SPARSE,
    "resize_": _NO_RESIZE,
    "resize_as_": _NO_RESIZE,
    "torch__scaled_mm_v2": "Dynamo makes no graph of its arguments, which are enumerations, whatever the backend",
}
"""By entry: why it is no graph under `torch.compile`, though the CPU has it: it is run in parts,
without ``fullgraph``."""

FALLBACKS = {
    r"aten::(nonzero|masked_select|_unique.*|unique_.*|argwhere|bincount|repeat_interleave|index)(\..*)?": (
        "the shape of the result depends on values"
    ),
    r"aten::(.*_)?(lu|lu_\w+|cholesky\w*|qr|svd|eigh?|eigvals|lstsq|ldl_\w+|householder_product|ormqr|geqrf|solve\w*"
    r"|triangular_solve|inv_ex|slogdet|det)(\..*)?": "a matrix factorization, or what uses one: LAPACK on the CPU",
    r"aten::linalg_matrix_exp": "repeated squaring, as often as the values ask for",
    r"aten::(igamma.*|special_(hermite|laguerre|legendre|airy).*)": (
        "a loop whose length or branch depends on each value"
    ),
    r"aten::_ctc_loss.*": "a recursion over time steps, thousands of operations when unrolled",
    r"aten::(mul|pow|silu|div)\..*|aten::silu.*": "complex, with a number or a form that has no record",
    r"aten::hash_tensor.*": "a checksum of the bits",
    r"aten::_scaled_mm.*": "8-bit floating point",
    r"aten::.*(sparse|coalesce).*": "sparse tensors live on the CPU",
}
"""Why operations run on the CPU: the first pattern that matches the name of the operation."""

_PATTERNS = {re.compile(pattern): why for pattern, why in FALLBACKS.items()}


def reason(entry: str, dtype: str, check: str, db: str) -> str | None:
    """Why the check is not right, if that is known."""
    if db == "compiled" and entry in COMPILED:
        return COMPILED[entry]
    for key in ((entry, dtype, check), (entry, "*", check), (entry, dtype, "*"), (entry, "*", "*")):
        if key in GAPS:
            return GAPS[key]
    return None


def fallback_reason(operation: str) -> str | None:
    """Why `operation` runs on the CPU, if the reason is not just a missing record."""
    return next((why for pattern, why in _PATTERNS.items() if pattern.fullmatch(operation)), None)
