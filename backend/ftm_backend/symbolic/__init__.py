"""Symbolic sizes: integers that remember which polynomial of a program's symbols they are.

A size is a Python integer or a `SymInt`: a polynomial over symbols with integer coefficients, and
its *hint*, the value for the example shapes that the program is compiled with (PyTorch's words).
Arithmetic builds the polynomial. A comparison is decided by the hints, and records a *guard*: the
condition under which other values of the symbols give the same answer. Taking a plain number (an
index of a list, an argument of a C function) records an equality as guard. Code that does not know
about symbols is therefore correct with them: it specializes whatever it does not keep symbolic.

    with ShapeEnv({"s0": (37, 2)}) as symbols:    # hint 37, least value 2
        rows = read("{s0}")
        rows * 64 // 16          # {4*s0}, hint 148
        rows > 1000              # False; records the guard -s0+1000 >= 0
        symbols.guards           # conditions for the program's validity

The compiler turns a symbolic program into a *template* with expressions in place of numbers, see
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
