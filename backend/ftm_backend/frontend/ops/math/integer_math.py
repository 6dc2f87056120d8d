"""Op records on digits: gcd and lcm, adjacent numbers, mantissa and exponent, decimal rounding."""

from __future__ import annotations

import math

from ftm_backend.dtypes import ALL, FLOATS, INTS, compute_dtype, info
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.oplib.float_bits import LAYOUT, next_after
from ftm_backend.frontend.oplib.op_registry import EXACT
from ftm_backend.frontend.oplib.pointwise import OWN, PROMOTED, pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr


def _gcd(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
    """Euclid's algorithm; its worst case are consecutive Fibonacci numbers of the dtype."""
    steps = math.ceil(info(a.dtype).bits / math.log2((1 + math.sqrt(5)) / 2)) + 1
    a, b = abs(a), abs(b)
    for _ in range(steps):
        done = a.eq(0)
        # the smallest integer % -1 overflows
        trap = done | a.eq(-1) if info(a.dtype).signed else done
        a, b = b % e.where(trap, 1, a), e.where(done, b, a)
    return b


def _lcm(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
    divisor = _gcd(a, b)
    if info(a.dtype).bits < 32:  # C++ promotes small types to int
        a, b, divisor = a.to("i32"), b.to("i32"), divisor.to("i32")
    zero = divisor.eq(0)
    return e.where(zero, 0, abs(a / e.where(zero, 1, divisor) * b))


def _own_nextafter(self: ScalarExpr, other: ScalarExpr, result_dtype: str) -> ScalarExpr:
    return next_after(self.to(result_dtype), other.to(result_dtype))


def _frexp(self: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
    integer, fraction = LAYOUT[self.dtype]
    width = info(self.dtype).bits - 1 - fraction
    bias = (1 << (width - 1)) - 2  # the exponent of numbers in [1/2, 1)
    tiny = (abs(self) < 2.0 ** (1 - bias)) & self.ne(0)
    bits = e.where(tiny, self * 2.0**fraction, self).bitcast(integer)
    field = (bits >> fraction) & ((1 << width) - 1)
    mask = ((1 << width) - 1) << fraction
    mantissa = ((bits & ~mask) | (bias << fraction)).bitcast(self.dtype)
    exponent = (field - bias).to("i32") - e.where(tiny, field.const(fraction), 0).to("i32")
    plain = self.eq(0) | e.isnan(self) | abs(self).eq(math.inf)
    return e.where(plain, self, mantissa), e.where(plain, 0, exponent)


def _round_decimals(self: ScalarExpr, decimals: int) -> ScalarExpr:
    if decimals == 0:
        return e.round_even(self)
    power = self.const(10.0 ** abs(decimals))
    return (
        e.round_even(self * power) / power if decimals > 0 else e.round_even(self / power) * power
    )


def _angle(self: ScalarExpr, result_dtype: str) -> ScalarExpr:
    if self.is_float:
        return e.where(e.isnan(self), self, e.where(self < 0, math.pi, self.const(0)))
    dtype = compute_dtype(result_dtype)  # PyTorch's default dtype, which may be f64
    if self.is_bool or not info(self.dtype).signed:
        return self.emitter.constant(0, dtype)
    return (self < 0).to(dtype) * math.pi


pointwise("aten::gcd", lambda self, other: _gcd(self, other), INTS, "binary", tolerance=EXACT)
pointwise("aten::lcm", lambda self, other: _lcm(self, other), INTS, "lcm", tolerance=EXACT)
pointwise("aten::nextafter", _own_nextafter, FLOATS, "binary", compute=OWN, tolerance=EXACT)
pointwise("aten::frexp.Tensor", _frexp, FLOATS, "unary", tolerance=EXACT)
pointwise("aten::round.decimals", _round_decimals, FLOATS, "round_decimals", tolerance=EXACT)
pointwise("aten::angle", _angle, ALL, "unary", compute=PROMOTED)
