"""Op records of softmax and log-softmax, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable

from ftm_backend.dtypes import FLOATS, compute_dtype, info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import ROWS, lowering
from ftm_backend.frontend.oplib.reductions import reduce
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.symbolic import size_hint

_KEPT_BYTES = 480_000
"""Most bytes of a row of scores, exponentials and results that stays on chip.

Exponentials of longer rows would be stored until their sum is known. On m7032 that takes 1.2 to 3
times as long as to compute them again.
"""


def _exponentials(
    b: LinalgBuilder, x: StridedValue, largest: StridedValue, dim: int
) -> tuple[list[StridedValue], Callable[..., ScalarExpr], StridedValue]:
    """Return ``exp(x - largest)``, the exponentials of softmax, and their sum along ``dim``.

    Returns:
        The inputs of a loop nest over the exponentials, the function from their elements to an
        exponential, and the sum. The exponentials are computed once if a row of them stays on chip.
    """
    dtype = largest.dtype

    def exponential(v: ScalarExpr, m: ScalarExpr) -> ScalarExpr:
        return e.exp(v.to(dtype) - m)

    each = sum(info(kind).bytes for kind in (x.dtype, dtype, b.result.dtype))
    if size_hint(x.shape[dim]) * each > _KEPT_BYTES:
        total = reduce(b, "sum", [x, largest], [dim], dtype, exponential)
        return [x, largest], exponential, total
    kept = b.pointwise(exponential, [x, largest])
    return [kept], lambda v: v, reduce(b, "sum", [kept], [dim], dtype)


def _maxima(b: LinalgBuilder, x: StridedValue, dim: int) -> StridedValue:
    """Return the maximum along ``dim``, in the compute dtype."""
    return reduce(b, "max", [x], [dim], compute_dtype(b.result.dtype))


@lowering("aten::_softmax", FLOATS, "softmax", ROWS)
def _softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    if not self.rank:
        return b.pointwise(lambda x: x - x + 1, [self], b.result)
    dim %= self.rank
    inputs, exponential, total = _exponentials(b, self, _maxima(b, self, dim), dim)
    return b.pointwise(lambda s, *x: exponential(*x) / s, [total, *inputs], b.result)


@lowering("aten::_safe_softmax", FLOATS, "safe_softmax", ROWS)
def _safe_softmax(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    """Compute softmax; a row of -inf gives zeros."""
    dim %= self.rank
    largest = _maxima(b, self, dim)
    inputs, exponential, total = _exponentials(b, self, largest, dim)
    return b.pointwise(
        lambda m, s, *x: e.where(m.eq(-math.inf), 0, exponential(*x) / s),
        [largest, total, *inputs],
        b.result,
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
