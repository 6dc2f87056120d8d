"""Matrix products; the half types accumulate in f32."""

from __future__ import annotations

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend.builder import Builder, Value
from ftm_backend.frontend.builder_ops import contraction

__all__ = ["product"]


def product(b: Builder, x: Value, y: Value) -> Value:
    """x[(B,)M,K] . y[(B,)K,N] in the accumulator's dtype."""
    return contraction(
        b, "linalg.batch_matmul" if x.rank == 3 else "linalg.matmul", x, y, (*x.shape[:-1], y.shape[-1]), compute_dtype(x.dtype)
    )
