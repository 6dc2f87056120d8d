"""Op records of softmax and log-softmax, forward and backward."""

from __future__ import annotations

import math

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import ROWS, lowering
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import ScalarExpr


def _shifted(b: LinalgBuilder, x: StridedValue, dim: int) -> tuple[StridedValue, StridedValue, str]:
    """Return the maximum along dim, the sum of exp(x - maximum), and the compute dtype."""
    dtype = compute_dtype(b.result.dtype)
    largest = reduce(b, "max", [x], [dim], dtype)
    total = reduce(b, "sum", [x, largest], [dim], dtype, lambda v, m: e.exp(v.to(dtype) - m))
    return largest, total, dtype


@lowering("aten::_softmax", FLOATS, "softmax", ROWS)
def _softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    if not self.rank:
        return b.pointwise(lambda x: x - x + 1, [self], b.result)
    largest, total, dtype = _shifted(b, self, dim % self.rank)
    return b.pointwise(
        lambda x, m, s: e.exp(x.to(dtype) - m) / s,
        [self, largest, total],
        b.result,
    )


@lowering("aten::_safe_softmax", FLOATS, "safe_softmax", ROWS)
def _safe_softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    """Compute softmax; a row of -inf gives zeros."""
    largest, total, compute = _shifted(b, self, dim % self.rank)

    def body(x: ScalarExpr, m: ScalarExpr, s: ScalarExpr) -> ScalarExpr:
        return e.where(m.eq(-math.inf), 0, e.exp(x.to(compute) - m) / s)

    return b.pointwise(body, [self, largest, total], b.result)


@lowering("aten::_log_softmax", FLOATS, "softmax", ROWS)
def _log_softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    if not self.rank:
        return b.pointwise(lambda x: x - x, [self], b.result)
    largest, total, dtype = _shifted(b, self, dim % self.rank)
    logarithm = b.pointwise(e.log, [total])
    return b.pointwise(
        lambda x, m, s: x.to(dtype) - m - s,
        [self, largest, logarithm],
        b.result,
    )


@lowering("aten::_softmax_backward_data", FLOATS, "softmax_backward", ROWS)
def _softmax_backward(
    b: LinalgBuilder, grad_output: StridedValue, output: StridedValue, dim: int
) -> StridedValue:
    dtype = compute_dtype(output.dtype)
    if not output.rank:
        return b.pointwise(lambda g: g - g, [grad_output], b.result)
    dims = [dim % output.rank]
    total = reduce(
        b, "sum", [grad_output, output], dims, dtype, lambda g, y: g.to(dtype) * y.to(dtype)
    )
    return b.pointwise(
        lambda g, y, s: y.to(dtype) * (g.to(dtype) - s),
        [grad_output, output, total],
        b.result,
    )


@lowering("aten::_log_softmax_backward_data", FLOATS, "softmax_backward", ROWS)
def _log_softmax_backward(
    b: LinalgBuilder, grad_output: StridedValue, output: StridedValue, dim: int
) -> StridedValue:
    dtype = compute_dtype(output.dtype)
    if not output.rank:
        return b.pointwise(lambda g: g - g, [grad_output], b.result)
    total = reduce(b, "sum", [grad_output], [dim % output.rank], dtype)
    return b.pointwise(
        lambda g, y, s: g.to(dtype) - e.exp(y.to(dtype)) * s,
        [grad_output, output, total],
        b.result,
    )
