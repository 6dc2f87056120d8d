"""Sizes that are data: integers that remember how they come from the symbols of a program.

A *size* is a Python integer, or a `SymInt`: a polynomial over symbols with integer coefficients,
together with the number that it is in the program at hand. Arithmetic keeps the polynomial. A
comparison answers for the number at hand and writes down, as a *guard*, what has to hold for other
values of the symbols for the answer to be the same. Wherever a number is taken (an index of a list,
a C function), the guard is equality: so code that knows nothing of sizes is right with them, and
what it does not keep general it specializes.

    with Symbols({"s0": (37, 2)}) as symbols:
        rows = read("{s0}")
        rows * 64 // 16          # {4*s0}, which is 148
        rows > 1000              # False; the guard is -s0+1000 >= 0
        symbols.guards           # what has to hold

What a compiler makes of them is a *template*: a program with expressions for numbers, see
`assembler/image_template.py`.
"""

from ftm_backend.symbolic.expression_compiler import SPELLED, SymbolicExpressionError, evaluator
from ftm_backend.symbolic.parser import declared, new_symbol, read, solved, substituted, symbols_of
from ftm_backend.symbolic.partial_order import PartialOrder
from ftm_backend.symbolic.shape_env import PLACEHOLDER, Guard, ShapeEnv, current
from ftm_backend.symbolic.specialize import (
    always_equal,
    as_integer,
    at_hand,
    ceildiv,
    divides,
    enough_bits,
    greater,
    is_integer,
    is_walked,
    lower_bound,
    narrow,
    never_less,
    never_negative,
    seen_equal,
    seen_less,
    upper_bound,
)
from ftm_backend.symbolic.symfloat import FloatBits, SymFloat, read_real, real, rounded
from ftm_backend.symbolic.symint import SymInt

__all__ = [
    "PLACEHOLDER",
    "SPELLED",
    "FloatBits",
    "Guard",
    "PartialOrder",
    "ShapeEnv",
    "SymFloat",
    "SymInt",
    "SymbolicExpressionError",
    "always_equal",
    "as_integer",
    "at_hand",
    "ceildiv",
    "current",
    "declared",
    "divides",
    "enough_bits",
    "evaluator",
    "greater",
    "is_integer",
    "is_walked",
    "lower_bound",
    "narrow",
    "never_less",
    "never_negative",
    "new_symbol",
    "read",
    "read_real",
    "real",
    "rounded",
    "seen_equal",
    "seen_less",
    "solved",
    "substituted",
    "symbols_of",
    "upper_bound",
]
