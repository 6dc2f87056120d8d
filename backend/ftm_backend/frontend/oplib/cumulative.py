"""Lowerings of scans along a dimension."""

from __future__ import annotations

import math

from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.scalar_math import ScalarExpr

_KINDS = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "lse": "lse"}


def scan(b: LinalgBuilder, kind: str, x: StridedValue, dim: int) -> StridedValue:
    """Return the inclusive scan of `x` along `dim`, in its dtype.

    Sums of floats accumulate in f64. ``min`` and ``max`` propagate NaN.

    Args:
        b: The builder.
        kind: ``sum``, ``prod``, ``min``, ``max`` or ``lse`` (logsumexp).
        x: The tensor.
        dim: The dimension.
    """
    if not x.rank or not x.type.numel:
        return x
    if x.dtype == "u8" and kind in ("min", "max"):  # the machine's bytes are signed
        return b.cast(scan(b, kind, b.cast(x, "i16"), dim), "u8")
    dim %= x.rank
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    result = b.create(
        "ftm.scan", x.dtype, shape, [b.tensor(b.reshape(x, shape))], {"kind": _KINDS[kind]}
    )
    return b.reshape(result, x.shape)


def extreme_scan(
    b: LinalgBuilder, kind: str, x: StridedValue, dim: int
) -> tuple[StridedValue, StridedValue]:
    """Return the running extreme along `dim` and its index.

    The index is the last one of equal elements; NaN wins, with the index of the last NaN.
    """
    values = scan(b, kind, x, dim)

    def index_if_extreme(element: ScalarExpr, best: ScalarExpr) -> ScalarExpr:
        is_extreme = element.eq(best)
        if element.is_float:
            is_extreme = is_extreme | e.isnan(element)
        return e.where(is_extreme, b.index(dim), b.constant(0, "i64"))

    indices = b.pointwise(index_if_extreme, [x, values])
    return values, scan(b, "max", indices, dim)
