"""The op record of `gated::rms_gate`.

The compiler loads it in a process without torch, so it imports only ftm_backend.
"""

from __future__ import annotations

from typing import Any

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.oplib.reductions import mean_of


@lowering("gated::rms_gate", FLOATS, "gated")
def _rms_gate(b: Any, x: Any, gate: Any, eps: float) -> Any:
    dtype = compute_dtype(x.dtype)  # half types are computed in f32
    squares = mean_of(b, x, [x.rank - 1], dtype, lambda v: v.to(dtype) * v.to(dtype))

    def body(v: Any, g: Any, square: Any) -> Any:
        opened = 1 / (e.exp(-g.to(dtype)) + 1)
        return (v.to(dtype) * e.rsqrt(square + eps) * opened).to(x.dtype)

    return b.pointwise(body, [x, gate, squares], b.result)
