"""Op records of activation functions and their gradients."""

from __future__ import annotations

import math
from typing import Unpack

from ftm_backend.dtypes import FLOATS, NUMBERS, compute_dtype
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import Body, LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.concat import concat
from ftm_backend.frontend.oplib.op_registry import EXACT, TOLERANCE, lowering
from ftm_backend.frontend.oplib.op_traits import ValueDomain, recorded
from ftm_backend.frontend.oplib.pointwise import PointwiseOptions, pointwise
from ftm_backend.frontend.scalar_math import Number, ScalarExpr

# The gradient of an in-place call uses the result, which does not determine the input if the slope
# is negative.
recorded("aten::elu_backward", domain=ValueDomain(0, "alpha", where="is_result"))
recorded(
    "aten::leaky_relu_backward", domain=ValueDomain(0, "negative_slope", where="self_is_result")
)
recorded("aten::softshrink", domain=ValueDomain(0, "lambd"))
recorded("aten::silu_backward aten::mish_backward", composite="whole")

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_SIXTH = 0.1666666716337204  # 1 / 6 in f32, which PyTorch uses for every dtype


def _activation(
    name: str, function: Body, dtypes: tuple[str, ...] = FLOATS, **options: Unpack[PointwiseOptions]
) -> None:
    pointwise(
        " ".join(f"aten::{n}" for n in name.split()), function, dtypes, "activation", **options
    )


_activation("relu", lambda self: e.maximum(self, 0), NUMBERS, tolerance=EXACT)
_activation("relu6", lambda self: e.minimum(e.maximum(self, 0), 6), NUMBERS, tolerance=EXACT)
_activation(
    "threshold",
    lambda self, threshold, value: e.where(self <= threshold, value, self),
    NUMBERS,
    tolerance=EXACT,
)
_activation(
    "threshold_backward",
    lambda grad_output, self, threshold: e.where(self <= threshold, 0, grad_output),
    NUMBERS,
    tolerance=EXACT,
)
_activation(
    "leaky_relu", lambda self, negative_slope: e.where(self > 0, self, self * negative_slope)
)
_activation(
    "leaky_relu_backward",
    lambda grad_output, self, negative_slope, self_is_result: e.where(
        self > 0, grad_output, grad_output * negative_slope
    ),
)
_activation("_prelu_kernel", lambda self, weight: e.where(self > 0, self, weight * self))
_activation(
    "_prelu_kernel_backward",
    lambda grad_output, self, weight: (
        e.where(self > 0, grad_output, weight * grad_output),
        e.where(self > 0, 0, self * grad_output),
    ),
)
_activation("silu", lambda self: self * e.sigmoid(self))


def _silu_backward(grad_output: ScalarExpr, self: ScalarExpr) -> ScalarExpr:
    s = e.sigmoid(self)
    return grad_output * s * (self * (s.const(1) - s) + 1)


_activation("silu_backward", _silu_backward)
_activation(
    "sigmoid_backward",
    lambda grad_output, output: grad_output * ((output.const(1) - output) * output),
)
_activation(
    "tanh_backward", lambda grad_output, output: grad_output * (output.const(1) - output * output)
)


def _gelu(self: ScalarExpr, approximate: str) -> ScalarExpr:
    if approximate == "tanh":
        return self * 0.5 * (e.tanh((self + self * self * self * _CUBIC) * _SQRT_2_OVER_PI) + 1)
    return self * 0.5 * (e.erf(self * _SQRT_HALF) + 1)


def _gelu_backward(grad_output: ScalarExpr, self: ScalarExpr, approximate: str) -> ScalarExpr:
    if approximate == "tanh":
        square = self * self
        t = e.tanh((self + square * self * _CUBIC) * _SQRT_2_OVER_PI)
        inner = (square * (3 * _CUBIC) + 1) * _SQRT_2_OVER_PI
        return grad_output * ((t + 1) * 0.5 + self * 0.5 * (t.const(1) - t * t) * inner)
    cdf = (e.erf(self * _SQRT_HALF) + 1) * 0.5
    pdf = e.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad_output * (cdf + self * pdf)


_activation("gelu", _gelu)
_activation("gelu_backward", _gelu_backward)


def _elu(self: ScalarExpr, alpha: ScalarExpr, scale: Number, input_scale: ScalarExpr) -> ScalarExpr:
    negative = self.const(1) * alpha * scale
    return e.where(self <= 0, e.expm1(self * input_scale) * negative, self * scale)


def _elu_backward(
    grad_output: ScalarExpr,
    alpha: ScalarExpr,
    scale: ScalarExpr,
    input_scale: ScalarExpr,
    is_result: bool,
    self_or_result: ScalarExpr,
) -> ScalarExpr:
    x = self_or_result
    negative = x.const(1) * alpha * scale
    inside = (
        (x + negative) * input_scale
        if is_result
        else e.exp(x * input_scale) * input_scale * negative
    )
    return e.where(x <= 0, grad_output * inside, grad_output * scale)


_activation("elu", _elu)
_activation("elu_backward", _elu_backward)
_activation("celu", lambda self, alpha: _elu(self, alpha, 1.0, self.const(1) / alpha))
_activation(
    "hardtanh",
    lambda self, min_val, max_val: e.minimum(e.maximum(self, min_val), max_val),
    (*FLOATS, "i8", "i16", "i32", "i64"),
    tolerance=EXACT,
)
_activation(
    "hardtanh_backward",
    lambda grad_output, self, min_val, max_val: e.where(
        (self <= min_val) | (self >= max_val), 0, grad_output
    ),
    tolerance=EXACT,
)
_activation("hardsigmoid", lambda self: e.minimum(e.maximum(self + 3, 0), 6) / 6)
_activation(
    "hardsigmoid_backward",
    lambda grad_output, self: e.where((self > -3) & (self < 3), grad_output * _SIXTH, 0),
)
_activation("hardswish", lambda self: self * e.minimum(e.maximum(self + 3, 0), 6) / 6)
_activation(
    "hardswish_backward",
    lambda grad_output, self: e.where(
        self <= -3, 0, e.where(self < 3, grad_output * (self / 3 + 0.5), grad_output)
    ),
)
_activation(
    "hardshrink",
    lambda self, lambd: e.where((self >= -lambd) & (self <= lambd), 0, self),
    rounds=("lambd",),
    tolerance=EXACT,
)
_activation(
    "hardshrink_backward",
    lambda grad_out, self, lambd: e.where((self >= -lambd) & (self <= lambd), 0, grad_out),
    rounds=("lambd",),
    tolerance=EXACT,
)
_activation(
    "softshrink",
    lambda self, lambd: e.where(
        self > lambd, self - lambd, e.where(self < -lambd, self + lambd, self * 0)
    ),
)
_activation(
    "softshrink_backward",
    lambda grad_output, self, lambd: e.where((self >= -lambd) & (self <= lambd), 0, grad_output),
    rounds=("lambd",),
    tolerance=EXACT,
)


def _softplus(self: ScalarExpr, beta: ScalarExpr, threshold: ScalarExpr) -> ScalarExpr:
    scaled = self * beta
    return e.where(scaled > threshold, self, e.log1p(e.exp(scaled)) / beta)


def _softplus_backward(
    grad_output: ScalarExpr, self: ScalarExpr, beta: ScalarExpr, threshold: ScalarExpr
) -> ScalarExpr:
    z = e.exp(self * beta)
    return e.where(self * beta > threshold, grad_output, grad_output * z / (z + 1))


_activation("softplus", _softplus)
_activation("softplus_backward", _softplus_backward)


def _log_sigmoid(x: ScalarExpr) -> ScalarExpr:
    return e.minimum(x, 0) - e.log1p(e.exp(-abs(x)))


@lowering("aten::log_sigmoid_forward", FLOATS, "log_sigmoid")
def _log_sigmoid_forward(b: LinalgBuilder, self: StridedValue) -> tuple[StridedValue, StridedValue]:
    """Return log(sigmoid(x)) and a buffer for PyTorch's backward op.

    The buffer may be empty, and our backward op does not read it.
    """
    dtype = compute_dtype(self.dtype)
    out = b.pointwise(lambda x: _log_sigmoid(x.to(dtype)).to(self.dtype), [self])
    buffer = b.results[1]
    if buffer is None or buffer.numel != self.type.numel:
        return out, b.full(0, self.dtype, buffer.shape if buffer is not None else (0,))
    return out, b.pointwise(lambda x: e.exp(-abs(x.to(dtype))).to(self.dtype), [self])


@lowering("aten::log_sigmoid_backward", FLOATS, "log_sigmoid")
def _log_sigmoid_backward(
    b: LinalgBuilder, grad_output: StridedValue, self: StridedValue, buffer: StridedValue
) -> StridedValue:
    dtype = compute_dtype(self.dtype)

    def body(g: ScalarExpr, x: ScalarExpr) -> ScalarExpr:
        x = x.to(dtype)
        return (g.to(dtype) * (x.const(1) - e.sigmoid(x))).to(self.dtype)

    return b.pointwise(body, [grad_output, self], b.result)


def _mish(x: ScalarExpr) -> ScalarExpr:
    return x * e.tanh(e.where(x > 20, x, e.log1p(e.exp(e.minimum(x, 20)))))


def _mish_backward(grad_output: ScalarExpr, self: ScalarExpr) -> ScalarExpr:
    t = e.tanh(e.where(self > 20, self, e.log1p(e.exp(e.minimum(self, 20)))))
    return grad_output * (t + self * e.sigmoid(self) * (t.const(1) - t * t))


_activation("mish", lambda self: _mish(self))
_activation("mish_backward", _mish_backward)


def _logit_backward(grad_output: ScalarExpr, self: ScalarExpr, eps: float | None) -> ScalarExpr:
    slope = grad_output / (self * (self.const(1) - self))
    if eps is None:
        return e.where((self < 0) | (self > 1), math.nan, slope)
    return e.where((self < eps) | (self > 1 - eps), 0, slope)


pointwise("aten::logit_backward", _logit_backward, FLOATS, "logit_backward")


# --- gated linear unit
# ------------------------------------------------------------------------------------


_GATED = {**TOLERANCE, "f16": (2e-2, 5e-3), "bf16": (1e-1, 5e-2)}
"""PyTorch's CPU kernels round each step of these gradients to the half types."""


def _halves(x: StridedValue, dim: int) -> tuple[int, StridedValue, StridedValue]:
    """Return dim >= 0, the values and the gates."""
    dim %= x.rank
    half = x.shape[dim] // 2
    return dim, x.slice(dim, 0, half), x.slice(dim, half, half)


@lowering("aten::glu", FLOATS, "glu", _GATED)
def _glu(b: LinalgBuilder, self: StridedValue, dim: int) -> StridedValue:
    dtype = compute_dtype(self.dtype)
    _, values, gates = _halves(self, dim)
    return b.pointwise(
        lambda v, g: (v.to(dtype) * e.sigmoid(g.to(dtype))).to(self.dtype),
        [values, gates],
        b.result,
    )


@lowering("aten::glu_backward", FLOATS, "glu", _GATED)
def _glu_backward(
    b: LinalgBuilder, grad_output: StridedValue, self: StridedValue, dim: int
) -> StridedValue:
    dtype = compute_dtype(self.dtype)
    dim, values, gates = _halves(self, dim)

    def body(y: ScalarExpr, v: ScalarExpr, g: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
        y, s = y.to(dtype), e.sigmoid(g.to(dtype))
        return (y * s).to(self.dtype), (y * v.to(dtype) * s * (s.const(1) - s)).to(self.dtype)

    return concat(
        b, list(b.pointwise_all(body, [grad_output, values, gates], [grad_output.type] * 2)), dim
    )


@lowering("aten::glu_jvp", FLOATS, "glu", _GATED)
def _glu_jvp(
    b: LinalgBuilder, glu: StridedValue, x: StridedValue, dx: StridedValue, dim: int
) -> StridedValue:
    dtype = compute_dtype(x.dtype)
    _, _, gates = _halves(x, dim)
    _, d_values, d_gates = _halves(dx, dim)

    def body(y: ScalarExpr, g: ScalarExpr, dv: ScalarExpr, dg: ScalarExpr) -> ScalarExpr:
        s = e.sigmoid(g.to(dtype))
        return (s * dv.to(dtype) + y.to(dtype) * (s.const(1) - s) * dg.to(dtype)).to(x.dtype)

    return b.pointwise(body, [glu, gates, d_values, d_gates], b.result)
