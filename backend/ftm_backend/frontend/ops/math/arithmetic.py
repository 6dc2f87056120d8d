"""Op records of arithmetic on two and three operands, selection, and clamping."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Unpack

from ftm_backend.dtypes import ALL, FLOATS, HALVES, NUMBERS, STORED, compute_dtype, info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.oplib.op_registry import EXACT
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.pointwise import OWN, PointwiseOptions, pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr
from ftm_backend.symbolic import round_to_dtype

recorded("aten::div", refuses="zero_divisors_if_rounded", converts_to_out=True)
recorded(
    "aten::floor_divide aten::fmod aten::remainder", refuses="zero_divisors", converts_to_out=True
)
recorded("aten::add", checks_alpha=True)
recorded("aten::sub aten::rsub", checks_alpha=True, tried=("bools",))
recorded("aten::masked_fill", value_is_number=True)
recorded("aten::ldexp", composite="unfit", asks_cpu="integers")

_INTEGER_ZERO = (
    "division of an integer by zero gives 0 instead of an error: a compiled program cannot raise"
)


def _binary(
    names: str,
    function: Callable[..., ScalarExpr],
    dtypes: tuple[str, ...] = ALL,
    **options: Unpack[PointwiseOptions],
) -> None:
    pointwise(
        " ".join(f"aten::{name}" for name in names.split()), function, dtypes, "binary", **options
    )


_binary("add.Tensor add.Scalar", lambda self, other, alpha: self + other * alpha)
_binary("sub.Tensor sub.Scalar", lambda self, other, alpha: self - other * alpha, NUMBERS)
_binary("rsub.Tensor rsub.Scalar", lambda self, other, alpha: other - self * alpha, NUMBERS)
_binary("mul.Tensor mul.Scalar", lambda self, other: self * other)
_binary("atan2", lambda self, other: e.apply("math.atan2", self, other))
_binary("copysign.Tensor copysign.Scalar", lambda self, other: e.copysign(self, other))
_binary("hypot", lambda self, other: _hypot(self, other), FLOATS)
_binary("maximum", lambda self, other: e.maximum(self, other), tolerance=EXACT)
_binary("minimum", lambda self, other: e.minimum(self, other), tolerance=EXACT)
_binary("fmax", lambda self, other: self.maxnum(other), tolerance=EXACT)
_binary("fmin", lambda self, other: self.minnum(other), tolerance=EXACT)
_binary(
    "xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self", lambda self, other: _xlogy(self, other)
)
_binary(
    "heaviside",
    lambda self, values: e.where(self.eq(0), values, (self > 0).to(self.dtype)),
    tolerance=EXACT,
)

_binary("logaddexp", lambda self, other: _log_add(self, other, e.exp, 1.0), FLOATS)
_binary(
    "logaddexp2",
    lambda self, other: _log_add(self, other, lambda x: e.apply("math.exp2", x), 1 / math.log(2)),
    FLOATS,
)


def _log_add(
    x: ScalarExpr, y: ScalarExpr, power: Callable[[ScalarExpr], ScalarExpr], unit: float
) -> ScalarExpr:
    """Return the logarithm of a sum of powers without overflow; equal infinities stay."""
    large = e.maximum(x, y)
    value = large + e.log1p(power(-abs(x - y))) * unit
    return e.where(abs(x).eq(math.inf) & x.eq(y), x, value)


def _hypot(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Scale by the larger side, so that no square overflows; infinity wins over NaN."""
    x, y = abs(x), abs(y)
    large, small = e.maximum(x, y), e.minimum(x, y)
    ratio = e.where(large.eq(0), 0, small / large)
    length = large * e.sqrt(ratio * ratio + 1)
    return e.where(x.eq(math.inf) | y.eq(math.inf), math.inf, length)


def _xlogy(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    product = e.where(x.eq(0), 0, x * e.log(y))
    return e.where(e.isnan(y), y, product)


def floor_divide(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
    """Divide rounding down, with PyTorch's results for zeros and infinities."""
    if a.is_bool:
        return a
    if not a.is_float:
        if not info(a.dtype).signed:
            return a / b
        quotient = a / b
        inexact = (quotient * b).ne(a) & ((a < 0) ^ (b < 0)) & b.ne(0)
        return quotient - inexact.to(a.dtype)
    remainder = a % b
    quotient = (a - remainder) / b
    quotient = quotient - (remainder.ne(0) & ((b < 0) ^ (remainder < 0))).to(a.dtype)
    floored = e.floor(quotient)
    floored = floored + (quotient - floored > 0.5).to(a.dtype)
    floored = e.where(quotient.ne(0), floored, e.copysign(quotient.const(0), a / b))
    return e.where(b.eq(0), a / b, floored)


def remainder(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
    """Return Python's remainder: it has the divisor's sign."""
    rest = a % b
    if not a.is_float and not info(a.dtype).signed:
        return rest
    return e.where(rest.ne(0) & ((b < 0) ^ (rest < 0)), rest + b, rest)


def divide(
    self: ScalarExpr, other: ScalarExpr, rounding_mode: str | None, result_dtype: str
) -> ScalarExpr:
    """Divide in one of aten::div's rounding modes; truncation applies to the rounded quotient."""
    if rounding_mode == "floor":
        return floor_divide(self, other)
    quotient = (self / other).to(result_dtype).to(self.dtype)
    return e.trunc(quotient) if rounding_mode == "trunc" and self.is_float else quotient


_binary("div.Tensor div.Scalar true_divide.Tensor", lambda self, other: self / other)
_binary("div.Tensor_mode div.Scalar_mode", divide, NUMBERS, rounds=("self",), gap=_INTEGER_ZERO)
_binary(
    "floor_divide floor_divide.Scalar",
    lambda self, other: floor_divide(self, other),
    NUMBERS,
    rounds=("self",),
    gap=_INTEGER_ZERO,
)
_binary(
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor",
    lambda self, other: remainder(self, other),
    NUMBERS,
    rounds=("self", "other"),
    gap=_INTEGER_ZERO,
)
_binary(
    "fmod.Tensor fmod.Scalar",
    lambda self, other: self % other,
    NUMBERS,
    rounds=("self", "other"),
    gap=_INTEGER_ZERO,
)


def _integer_power(base: ScalarExpr, exponent: int) -> ScalarExpr:
    result = base.const(1)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def power(self: ScalarExpr, exponent: ScalarExpr, result_dtype: str) -> ScalarExpr:
    """Return ``self ** exponent``; small constant exponents become products and roots."""
    if not isinstance(exponent, e.ScalarExpr):
        return _constant_power(self, exponent, result_dtype)
    if not isinstance(self, e.ScalarExpr):
        self = exponent.const(self)
    if self.is_float:
        return e.pow_(self, exponent)
    return _variable_integer_power(self, exponent)


def _constant_power(x: ScalarExpr, exponent: float, result_dtype: str) -> ScalarExpr:
    """Return ``x ** exponent``; PyTorch rounds the exponent to half dtypes, but not to float32."""
    if not x.is_float:
        return _integer_power(x, int(exponent))
    special: dict[float, Callable[[ScalarExpr], ScalarExpr]] = {
        0.5: e.sqrt,
        -0.5: e.rsqrt,
        1: lambda x: x,
        -1: lambda x: x.const(1) / x,
        0: lambda x: x.const(1),
    }
    if exponent in special:
        return special[exponent](x)
    if exponent in (2, 3):
        return _integer_power(x, int(exponent))
    if exponent == -2:
        return x.const(1) / (x * x)
    if result_dtype in HALVES:
        return e.pow_(x, x.const(round_to_dtype(float(exponent), result_dtype)))
    nearest = round_to_dtype(float(exponent), x.dtype)
    if nearest != exponent and nearest.is_integer():
        # 2.0000001 would round to 2, and a negative base would then have a result
        return e.pow_(x.to("f64"), x.emitter.constant(exponent, "f64"))
    return e.pow_(x, x.const(exponent))


def _variable_integer_power(base: ScalarExpr, exponent: ScalarExpr) -> ScalarExpr:
    """Square and multiply over all bits; a negative exponent gives 1, -1 or 0."""
    result, square, bits = base.const(1), base, info(base.dtype).bits
    for bit in range(bits - 1 if info(base.dtype).signed else bits):
        odd = ((exponent >> bit) & 1).ne(0)
        result = e.where(odd, result * square, result)
        square = square * square
    if not info(base.dtype).signed:
        return result
    odd = (exponent & 1).ne(0)
    of_negative = e.where(base.eq(1), 1, e.where(base.eq(-1), e.where(odd, base, base * base), 0))
    return e.where(exponent < 0, of_negative, result)


_binary(
    "pow.Tensor_Scalar",
    power,
    ALL,
    tolerance={
        "f64": (1e-11, 1e-12),
        "f32": (1e-5, 1e-6),
        "f16": (2e-3, 1e-4),
        "bf16": (1.6e-2, 1e-3),
    },
)
_binary("pow.Tensor_Tensor", power, NUMBERS)
_binary("pow.Scalar", power, ALL)


def _ldexp(self: ScalarExpr, other: ScalarExpr, result_dtype: str) -> ScalarExpr:
    """Self * 2**other; for floats and integer exponents right where 2**other overflows."""
    if other.is_float or not self.is_float:
        dtype = other.dtype if other.is_float else result_dtype
        wide = other.to(compute_dtype(dtype))
        return self.to(compute_dtype(result_dtype)) * e.pow_(wide.const(2), wide).to(dtype).to(
            compute_dtype(result_dtype)
        )
    x, left = self.to("f64"), e.maximum(e.minimum(other.to("i64"), 2200), -2200).to("f64")
    # Each factor is a normal number. The lower limit leaves 53 binary digits, so that only the last
    # product is rounded.
    for _ in range(3 if result_dtype == "f64" else 1):
        exponent = e.maximum(e.minimum(left, 1023), -969)
        x, left = x * e.apply("math.exp2", exponent), left - exponent
    return x


pointwise("aten::ldexp.Tensor", _ldexp, ALL, "binary", compute=OWN)


def _clamp(
    self: ScalarExpr, min: ScalarExpr | None = None, max: ScalarExpr | None = None
) -> ScalarExpr:
    x = self if min is None else e.maximum(self, min)
    return x if max is None else e.minimum(x, max)


pointwise("aten::clamp aten::clamp.Tensor", _clamp, ALL, "clamp", tolerance=EXACT)
pointwise(
    "aten::clamp_min aten::clamp_min.Tensor",
    lambda self, min: _clamp(self, min),
    ALL,
    "clamp",
    tolerance=EXACT,
)
pointwise(
    "aten::clamp_max aten::clamp_max.Tensor",
    lambda self, max: _clamp(self, None, max),
    ALL,
    "clamp",
    tolerance=EXACT,
)


def _where(condition: ScalarExpr, self: ScalarExpr, other: ScalarExpr) -> ScalarExpr:
    # both are Python bools
    if not isinstance(self, e.ScalarExpr) and not isinstance(other, e.ScalarExpr):
        self = condition.emitter.constant(self, "i1")
    return e.where(condition.to("i1"), self, other)


pointwise(
    "aten::where.self aten::where.ScalarSelf aten::where.ScalarOther aten::where.Scalar",
    _where,
    STORED,
    "where",
    keep=("condition",),
    tolerance=EXACT,
)
pointwise(
    "aten::masked_fill.Scalar aten::masked_fill.Tensor",
    lambda self, mask, value: e.where(mask.to("i1"), value, self),
    ALL,
    "where",
    keep=("mask",),
    tolerance=EXACT,
)
# In eager's order: a product of the two tensors may overflow where one with `value` does not.
pointwise(
    "aten::addcmul",
    lambda self, tensor1, tensor2, value: self + value * tensor1 * tensor2,
    NUMBERS,
    "ternary",
)
pointwise(
    "aten::addcdiv",
    lambda self, tensor1, tensor2, value: self + value * tensor1 / tensor2,
    FLOATS,
    "ternary",
)


def _lerp(self: ScalarExpr, end: ScalarExpr, weight: ScalarExpr) -> ScalarExpr:
    weight = weight if isinstance(weight, e.ScalarExpr) else self.const(weight)
    far = abs(weight) >= 0.5
    return e.where(
        far, end - (end - self) * (weight.const(1) - weight), self + weight * (end - self)
    )


pointwise("aten::lerp.Scalar aten::lerp.Tensor", _lerp, FLOATS, "ternary")


def _nan_to_num(
    self: ScalarExpr, nan: ScalarExpr, posinf: ScalarExpr, neginf: ScalarExpr, result_dtype: str
) -> ScalarExpr:
    if not self.is_float:
        return self
    largest = _LARGEST[result_dtype]
    x = e.where(e.isnan(self), 0 if nan is None else nan, self)
    x = e.where(x.eq(math.inf), largest if posinf is None else posinf, x)
    return e.where(x.eq(-math.inf), -largest if neginf is None else neginf, x)


_LARGEST = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
}

pointwise("aten::nan_to_num", _nan_to_num, ALL, "nan_to_num", tolerance=EXACT)
