"""Op records of softmax and log-softmax, forward and backward."""

from __future__ import annotations

import math

from ftm_backend.dtypes import FLOATS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import ROWS, lowering
from ftm_backend.frontend.oplib.reductions import reduce


def _exponentials(
    b: LinalgBuilder, x: StridedValue, largest: StridedValue, dim: int
) -> tuple[StridedValue, StridedValue]:
    """Return ``exp(x - largest)``, and its sum along ``dim``."""
    dtype = largest.dtype
    kept = b.pointwise(lambda v, m: e.exp(v.to(dtype) - m), [x, largest])
    return kept, reduce(b, "sum", [kept], [dim], dtype)


def _maxima(b: LinalgBuilder, x: StridedValue, dim: int) -> StridedValue:
    """Return the maximum along ``dim``, in the compute dtype."""
    return reduce(b, "max", [x], [dim], compute_dtype(b.result.dtype))


@lowering("aten::_softmax", FLOATS, "softmax", ROWS)
def _softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    if not self.rank:
        return b.pointwise(lambda x: x - x + 1, [self], b.result)
    dim %= self.rank
    kept, total = _exponentials(b, self, _maxima(b, self, dim), dim)
    return b.pointwise(lambda s, x: x / s, [total, kept], b.result)


@lowering("aten::_safe_softmax", FLOATS, "safe_softmax", ROWS)
def _safe_softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    """Compute softmax; a row of -inf gives zeros."""
    dim %= self.rank
    largest = _maxima(b, self, dim)
    kept, total = _exponentials(b, self, largest, dim)
    return b.pointwise(
        lambda m, s, x: e.where(m.eq(-math.inf), 0, x / s), [largest, total, kept], b.result
    )


@lowering("aten::_log_softmax", FLOATS, "softmax", ROWS)
def _log_softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    if not self.rank:
        return b.pointwise(lambda x: x - x, [self], b.result)
    dims = [dim % self.rank]
    largest = _maxima(b, self, *dims)
    dtype = largest.dtype
    total = reduce(b, "sum", [self, largest], dims, dtype, lambda x, m: e.exp(x.to(dtype) - m))
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
