"""Map operations: mathematical functions of floats, all of them macros.

Domains and special values follow IEEE 754 and C: the logarithm of 0 is -inf, of a negative number
NaN, and so on. Results are within a few ulps of the type; F16 and BF16 compute in F32 and round
once.
"""

from __future__ import annotations

import math

from ftm_backend.target.element_types import FLOATS
from ftm_backend.target.instruction import MacroDef
from ftm_backend.target.instructions.map_rows import EXPANDED, example, operation, unary_math

_FAMILY = "map math"
_UNIT = (-0.5, 0.0, 0.75)
_POSITIVE = (0.25, 1.0, 9.0)
_REAL = (-2.5, 0.0, 1.5)
_HALVES = (-2.5, -0.5, 0.5, 1.5, 1.75)

INSTRUCTIONS = (
    unary_math("VEXP", "Exponential.", "d = e^a",
               "exponentials.exponential", math.exp, _REAL),
    unary_math("VEXP2", "Power of two.", "d = 2^a",
               "exponentials.power_of_two", lambda x: 2.0**x, _REAL),
    unary_math("VEXPM1", "Exponential minus one, exact near 0.", "d = e^a - 1",
               "exponentials.exponential_less_one", math.expm1, (-2.5, 1e-10, 1.5)),
    unary_math("VLOG", "Natural logarithm.", "d = ln(a)",
               "logarithms.logarithm", math.log, _POSITIVE),
    unary_math("VLOG1P", "Logarithm of one plus a, exact near 0.", "d = ln(1 + a)",
               "logarithms.logarithm_1p", math.log1p, (-0.5, 1e-10, 9.0)),
    unary_math("VLOG2", "Logarithm to base 2.", "d = log2(a)",
               "logarithms.logarithm_2", math.log2, _POSITIVE),
    unary_math("VLOG10", "Logarithm to base 10.", "d = log10(a)",
               "logarithms.logarithm_10", math.log10, _POSITIVE),
    unary_math("VSQRT", "Square root, correctly rounded; NaN below 0.", "d = sqrt(a)",
               "division.square_root", math.sqrt, _POSITIVE),
    unary_math("VRSQRT", "Reciprocal square root.", "d = 1 / sqrt(a)",
               "division.reciprocal_root", lambda x: 1 / math.sqrt(x), _POSITIVE),
    unary_math("VRCP", "Reciprocal, correctly rounded.", "d = 1 / a",
               "division.reciprocal", lambda x: 1 / x, (-2.0, 0.5, 3.0), elements=""),
    unary_math("VCBRT", "Cube root.", "d = a^(1/3)",
               "logarithms.cube_root", math.cbrt, (-8.0, 1.0, 27.0)),
    unary_math("VSIN", "Sine of radians.", "d = sin(a)",
               "trigonometry.sine", math.sin, _REAL),
    unary_math("VCOS", "Cosine of radians.", "d = cos(a)",
               "trigonometry.cosine", math.cos, _REAL),
    unary_math("VTAN", "Tangent of radians.", "d = tan(a)",
               "trigonometry.tangent", math.tan, _REAL),
    unary_math("VASIN", "Arc sine; NaN outside [-1, 1].", "d = asin(a)",
               "trigonometry.arc_sine", math.asin, _UNIT),
    unary_math("VACOS", "Arc cosine; NaN outside [-1, 1].", "d = acos(a)",
               "trigonometry.arc_cosine", math.acos, _UNIT),
    unary_math("VATAN", "Arc tangent.", "d = atan(a)",
               "trigonometry.arc_tangent", math.atan, _REAL),
    operation(
        "VATAN2",
        _FAMILY,
        "ab",
        "Angle of the point (b, a).",
        "d = atan2(a, b)",
        FLOATS,
        EXPANDED,
        example(
            "VATAN2.F64 v0, v1, v9",
            ("F64", [math.atan2(1, -1), math.atan2(-2, 0)]),
            ("F64", [1, -2]),
            ("F64", [-1, 0]),
        ),
        macro=MacroDef("trigonometry.arc_tangent_2", FLOATS),
        elements="math.atan2",
    ),
    unary_math("VSINH", "Hyperbolic sine.", "d = sinh(a)",
               "exponentials.hyperbolic_sine", math.sinh, _REAL),
    unary_math("VCOSH", "Hyperbolic cosine.", "d = cosh(a)",
               "exponentials.hyperbolic_cosine", math.cosh, _REAL),
    unary_math("VTANH", "Hyperbolic tangent.", "d = tanh(a)",
               "exponentials.hyperbolic_tangent", math.tanh, _REAL),
    unary_math("VASINH", "Inverse hyperbolic sine.", "d = asinh(a)",
               "logarithms.area_sine", math.asinh, _REAL),
    unary_math("VACOSH", "Inverse hyperbolic cosine; NaN below 1.", "d = acosh(a)",
               "logarithms.area_cosine", math.acosh, (1.0, 1.5, 9.0)),
    unary_math("VATANH", "Inverse hyperbolic tangent; NaN outside [-1, 1].", "d = atanh(a)",
               "logarithms.area_tangent", math.atanh, _UNIT),
    unary_math("VERF", "Error function.", "d = 2/sqrt(pi) * integral of e^(-t^2) over t = 0..a",
               "error_function.error_function", math.erf, _REAL),
    unary_math("VERFC", "Complementary error function, exact where erf is near 1.",
               "d = 1 - erf(a)",
               "error_function.complementary_error_function", math.erfc, (-2.5, 0.0, 6.0)),
    operation(
        "VPOW",
        _FAMILY,
        "ab",
        "Power, like C's pow.",
        "d = a^b",
        FLOATS,
        EXPANDED,
        example(
            "VPOW.F64 v0, v1, v9",
            ("F64", [8.0, 0.25, 1.0]),
            ("F64", [2, -2, 0]),
            ("F64", [3, -2, 0]),
        ),
        macro=MacroDef("logarithms.power", FLOATS),
        elements="math.powf",
    ),
    unary_math("VFLOOR", "Rounds down.", "d = floor(a)",
               "min_max_round.floor", lambda x: float(math.floor(x)), _HALVES, exact=True),
    unary_math("VCEIL", "Rounds up.", "d = ceil(a)",
               "min_max_round.ceiling", lambda x: float(math.ceil(x)), _HALVES, exact=True),
    unary_math("VROUND", "Rounds to the nearest integer, ties to even.", "d = round(a)",
               "min_max_round.nearest", lambda x: float(round(x)), _HALVES,
               elements="math.roundeven", exact=True),
    unary_math("VTRUNC", "Rounds towards zero.", "d = trunc(a)",
               "min_max_round.towards_zero", lambda x: float(math.trunc(x)), _HALVES, exact=True),
)
