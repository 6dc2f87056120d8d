"""Lowering of matrix products; half types accumulate in f32."""

from __future__ import annotations

from ftm_backend.dtypes import compute_dtype
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.named_op_builder import contraction


def matmul(b: LinalgBuilder, x: StridedValue, y: StridedValue) -> StridedValue:
    """Multiply x[(B,)M,K] and y[(B,)K,N]; the result has the accumulator's dtype."""
    return contraction(
        b,
        "linalg.batch_matmul" if x.rank == 3 else "linalg.matmul",
        x,
        y,
        (*x.shape[:-1], y.shape[-1]),
        compute_dtype(x.dtype),
    )
