"""Op records of unary mathematics, comparisons, logic and bits: one line for each op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Unpack

from ftm_backend.dtypes import ALL, BOOL, FLOATS, INTS, NUMBERS, STORED
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.linalg_builder import LinalgBuilder, StridedValue
from ftm_backend.frontend.oplib.op_registry import EXACT, TOLERANCE
from ftm_backend.frontend.oplib.op_traits import recorded
from ftm_backend.frontend.oplib.pointwise import OWN, PROMOTED, PointwiseOptions, pointwise
from ftm_backend.frontend.scalar_math import ScalarExpr

recorded("aten::heaviside", tried=("mixed",))
recorded("aten::pow", constants=("exponent",), tried=("negative_exponent",))


def _unary(
    name: str,
    function: Callable[..., ScalarExpr],
    dtypes: tuple[str, ...] = ALL,
    **options: Unpack[PointwiseOptions],
) -> None:
    pointwise(f"aten::{name}", function, dtypes, "unary", **options)


def _sign(self: ScalarExpr) -> ScalarExpr:
    return self if self.is_bool else (self > 0).to(self.dtype) - (self < 0).to(self.dtype)


def _integral(function: Callable[[ScalarExpr], ScalarExpr]) -> Callable[[ScalarExpr], ScalarExpr]:
    """Make a rounding function the identity on integers."""
    return lambda self: function(self) if self.is_float else self


_INFINITY_TESTS: dict[str, Callable[[ScalarExpr], ScalarExpr]] = {
    "isinf": lambda self: abs(self).eq(math.inf),
    "isposinf": lambda self: self.eq(math.inf),
    "isneginf": lambda self: self.eq(-math.inf),
    "isfinite": lambda self: abs(self) < math.inf,
}


def _of_floats(
    function: Callable[[ScalarExpr], ScalarExpr], of_integers: bool
) -> Callable[[ScalarExpr], ScalarExpr]:
    """Make a test of floats constant on integers."""
    return lambda self: (
        function(self) if self.is_float else self.emitter.constant(of_integers, "i1")
    )


def _reciprocal(self: ScalarExpr) -> ScalarExpr:
    return self.const(1) / self


def _logit(self: ScalarExpr, eps: float | None) -> ScalarExpr:
    # the order matters for eps > 1/2
    x = self if eps is None else e.where(self < eps, eps, e.minimum(self, 1 - eps))
    return e.log(x / (x.const(1) - x))


# PyTorch promotes integers and bools, so the result is floating-point.
for _name in (
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sqrt",
    "rsqrt",
    "sigmoid",
):
    _unary(_name, lambda self, f=getattr(e, _name): f(self))  # noqa: B008 (binds the loop variable)
for _name in (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cosh",
    "sinh",
    "tan",
    "exp2",
    "log10",
    "erfc",
):
    _unary(_name, lambda self, f=_name: e.apply(f"math.{f}", self))
_unary("reciprocal", _reciprocal)
# PyTorch rounds the odds to the half type before the logarithm, which matters near 1.
_unary("logit", _logit, tolerance={**TOLERANCE, "f16": (2e-3, 1e-3), "bf16": (1.6e-2, 8e-3)})
_unary("sinc", lambda self: e.where(self.eq(0), 1, e.sin(self * math.pi) / (self * math.pi)))
_unary("deg2rad", lambda self: self * (math.pi / 180), FLOATS)
_unary("rad2deg", lambda self: self * (180 / math.pi), FLOATS)

_unary("abs", lambda self: abs(self), NUMBERS, tolerance=EXACT)
_unary("neg", lambda self: -self, NUMBERS, tolerance=EXACT)
_unary("sign", _sign, ALL, tolerance=EXACT)
_unary("sgn", _sign, ALL, tolerance=EXACT)
_unary("square", lambda self: self * self, NUMBERS)
_unary("frac", lambda self: self - e.trunc(self), FLOATS)
for _name, _f in (
    ("floor", e.floor),
    ("ceil", e.ceil),
    ("trunc", e.trunc),
    ("round", e.round_even),
):
    _unary(_name, _integral(_f), NUMBERS, tolerance=EXACT)
_unary("bitwise_not", lambda self: ~self, INTS + BOOL, tolerance=EXACT)
_unary(
    "logical_not",
    lambda self: ~self.ne(0) if not self.is_bool else ~self,
    ALL,
    compute=OWN,
    tolerance=EXACT,
)
_unary(
    "isnan",
    lambda self: e.isnan(self) if self.is_float else self.emitter.constant(0, "i1"),
    ALL,
    compute=OWN,
    tolerance=EXACT,
)
for _name, _test in _INFINITY_TESTS.items():
    _unary(_name, _of_floats(_test, _name == "isfinite"), ALL, compute=PROMOTED, tolerance=EXACT)
_unary(
    "signbit",
    lambda self: (
        e.copysign(self.const(1), self) < 0
        if self.is_float
        else self < 0
        if not self.is_bool
        else self.const(0)
    ),
    ALL,
    compute=PROMOTED,
    tolerance=EXACT,
)

_COPIES = (
    "aten::_to_copy aten::clone aten::alias aten::detach aten::contiguous aten::lift_fresh"
    " aten::positive aten::copy aten::conj_physical aten::_conj_physical"
)


def _copy(
    b: LinalgBuilder, self: StridedValue, src: StridedValue | None = None, **_: object
) -> StridedValue:
    """Return the value itself: values are immutable."""
    if src is not None:  # aten::copy(self, src): src in self's shape and dtype
        return b.cast(src.expand(b.result.shape), b.result.dtype)
    return b.cast(self, b.result.dtype)


def _register_copies() -> None:
    from ftm_backend.frontend.oplib.op_registry import lowering

    lowering(_COPIES, STORED, "copy", EXACT)(_copy)


_register_copies()

# Comparisons in the dtype that both sides promote to.
_COMPARISONS: dict[str, Callable[[ScalarExpr, ScalarExpr], ScalarExpr]] = {
    "eq": lambda self, other: self.eq(other),
    "ne": lambda self, other: self.ne(other),
    "lt": lambda self, other: self < other,
    "le": lambda self, other: self <= other,
    "gt": lambda self, other: self > other,
    "ge": lambda self, other: self >= other,
}
for _name, _compare in _COMPARISONS.items():
    pointwise(
        f"aten::{_name}.Tensor aten::{_name}.Scalar",
        _compare,
        ALL,
        "binary",
        compute=PROMOTED,
        rounds=("self", "other"),
        tolerance=EXACT,
    )

_LOGIC: dict[str, Callable[[ScalarExpr, ScalarExpr], ScalarExpr]] = {
    "logical_and": lambda self, other: self.to("i1") & other.to("i1"),
    "logical_or": lambda self, other: self.to("i1") | other.to("i1"),
    "logical_xor": lambda self, other: self.to("i1") ^ other.to("i1"),
}
for _name, _logical in _LOGIC.items():
    pointwise(f"aten::{_name}", _logical, ALL, "binary", compute=OWN, tolerance=EXACT)

_BITS: dict[str, Callable[[ScalarExpr, ScalarExpr], ScalarExpr]] = {
    "and": lambda self, other: self & other,
    "or": lambda self, other: self | other,
    "xor": lambda self, other: self ^ other,
}
for _name, _bits in _BITS.items():
    pointwise(
        f"aten::bitwise_{_name}.Tensor aten::bitwise_{_name}.Scalar"
        f" aten::bitwise_{_name}.Scalar_Tensor",
        _bits,
        INTS + BOOL,
        "binary",
        tolerance=EXACT,
    )


def _shift_left(self: ScalarExpr, other: ScalarExpr) -> ScalarExpr:
    bits = e.info(self.dtype).bits
    inside = (other >= 0) & (other < bits) if e.info(self.dtype).signed else other < bits
    return e.where(inside, self << e.where(inside, other, 0), 0)


def _shift_right(self: ScalarExpr, other: ScalarExpr) -> ScalarExpr:
    bits = e.info(self.dtype).bits
    top = bits - 1 if e.info(self.dtype).signed else bits
    inside = (other >= 0) & (other < bits) if e.info(self.dtype).signed else other < bits
    far = self >> (bits - 1) if top == bits - 1 else self.const(0)
    return e.where(inside, self >> e.where(inside, other, 0), far)


pointwise(
    "aten::bitwise_left_shift.Tensor aten::bitwise_left_shift.Tensor_Scalar"
    " aten::__lshift__.Tensor aten::__lshift__.Scalar",
    _shift_left,
    INTS,
    "shift",
    tolerance=EXACT,
)
pointwise(
    "aten::bitwise_right_shift.Tensor aten::bitwise_right_shift.Tensor_Scalar"
    " aten::__rshift__.Tensor aten::__rshift__.Scalar",
    _shift_right,
    INTS,
    "shift",
    tolerance=EXACT,
)
