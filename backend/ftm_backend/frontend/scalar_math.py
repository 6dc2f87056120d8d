"""Functions of scalar expressions, for the bodies of lowerings.

Import it as ``from ftm_backend.frontend import scalar_math as e``, then write ``e.exp(x)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ftm_backend.dtypes import info
from ftm_backend.frontend.scalar_expr import Number, ScalarEmitter, ScalarExpr, where

__all__ = [
    "Number",
    "ScalarEmitter",
    "ScalarExpr",
    "apply",
    "ceil",
    "copysign",
    "cos",
    "erf",
    "exp",
    "expm1",
    "floor",
    "fma",
    "highest",
    "info",
    "isnan",
    "log",
    "log1p",
    "log2",
    "lowest",
    "maximum",
    "minimum",
    "pow_",
    "round_even",
    "rsqrt",
    "sigmoid",
    "sin",
    "sqrt",
    "tanh",
    "trunc",
    "where",
]


def _unary(op: str) -> Callable[[ScalarExpr], ScalarExpr]:
    def function(x: ScalarExpr) -> ScalarExpr:
        return x.emitter.emit(op, x.dtype, x)

    function.__doc__ = f"``{op}``; x is floating."
    return function


exp, expm1, log, log1p, log2 = map(
    _unary, ("math.exp", "math.expm1", "math.log", "math.log1p", "math.log2")
)
sin, cos, tanh, erf = map(_unary, ("math.sin", "math.cos", "math.tanh", "math.erf"))
sqrt, rsqrt, floor, ceil = map(_unary, ("math.sqrt", "math.rsqrt", "math.floor", "math.ceil"))
trunc, round_even = map(_unary, ("math.trunc", "math.roundeven"))


def apply(op: str, *operands: ScalarExpr) -> ScalarExpr:
    """Apply the operation `op` to operands of one dtype; the result has that dtype."""
    return operands[0].emitter.emit(op, operands[0].dtype, *operands)


def pow_(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Return ``x ** y`` of floats."""
    return apply("math.powf", x, y)


def sigmoid(x: ScalarExpr) -> ScalarExpr:
    """Return ``1 / (1 + exp(-x))``."""
    return x.const(1) / (exp(-x) + 1)


def copysign(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Return the magnitude of `x` with the sign of `y`."""
    return apply("math.copysign", x, y)


def fma(a: ScalarExpr, b: ScalarExpr, c: ScalarExpr) -> ScalarExpr:
    """Return ``a * b + c``, rounded once."""
    return apply("math.fma", a, b, c)


def isnan(x: ScalarExpr) -> ScalarExpr:
    """Whether `x` is NaN, as i1."""
    return x.ne(x)


def maximum(a: ScalarExpr, b: Number) -> ScalarExpr:
    """Return the larger operand; NaN if either is NaN."""
    return a.maximum(b)


def minimum(a: ScalarExpr, b: Number) -> ScalarExpr:
    """Return the smaller operand; NaN if either is NaN."""
    return a.minimum(b)


def lowest(token: str) -> float:
    """Return the identity of max: -inf, or the smallest integer."""
    facts = info(token)
    if facts.kind == "float":
        return -math.inf
    return -(1 << (facts.bits - 1)) if facts.kind == "int" and facts.signed else 0


def highest(token: str) -> float:
    """Return the identity of min: inf, or the largest integer."""
    facts = info(token)
    if facts.kind == "float":
        return math.inf
    if facts.kind == "bool":
        return 1
    return (1 << (facts.bits - 1)) - 1 if facts.signed else (1 << facts.bits) - 1
