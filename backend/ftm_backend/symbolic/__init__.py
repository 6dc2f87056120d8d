"""Symbolic sizes: integers that remember which polynomial of a program's symbols they are.

A size is a Python integer or a `SymInt`: a polynomial over symbols with integer coefficients, and
its *hint*, the value for the example shapes that the program is compiled with (PyTorch's words).
Arithmetic builds the polynomial. A comparison is decided by the hints, and records a *guard*: the
condition under which other values of the symbols give the same answer. Taking a plain number (an
index of a list, an argument of a C function) records an equality as guard. Code that does not know
about symbols is therefore correct with them: it specializes whatever it does not keep symbolic.

    with ShapeEnv({"s0": (37, 2)}) as symbols:    # hint 37, least value 2
        rows = parse_size("{s0}")
        rows * 64 // 16          # {4*s0}, hint 148
        rows > 1000              # False; records the guard -s0+1000 >= 0
        symbols.guards           # conditions for the program's validity

The compiler turns a symbolic program into a *template* with expressions in place of numbers, see
`assembler/image_template.py`.
"""

from ftm_backend.symbolic.expression_compiler import (
    SIZE_PATTERN,
    SymbolicExpressionError,
    compile_expressions,
)
from ftm_backend.symbolic.parser import (
    free_symbols,
    new_symbol,
    parse_size,
    solve_equalities,
    substitute,
)
from ftm_backend.symbolic.partial_order import PartialOrder
from ftm_backend.symbolic.shape_env import Guard, ShapeEnv, current_env
from ftm_backend.symbolic.specialize import (
    as_integer,
    ceildiv,
    divides,
    guarded_equal,
    guarded_less,
    is_integer,
    lower_bound,
    may_exceed_one,
    size_hint,
    statically_known_equal,
    statically_known_ge,
    statically_known_nonnegative,
    sufficient_bits,
    sym_max,
    upper_bound,
)
from ftm_backend.symbolic.symfloat import (
    FloatBits,
    SymFloat,
    as_symfloat,
    parse_symfloat,
    round_to_dtype,
)
from ftm_backend.symbolic.symint import SymInt

__all__ = [
    "SIZE_PATTERN",
    "FloatBits",
    "Guard",
    "PartialOrder",
    "ShapeEnv",
    "SymFloat",
    "SymInt",
    "SymbolicExpressionError",
    "as_integer",
    "as_symfloat",
    "ceildiv",
    "compile_expressions",
    "current_env",
    "divides",
    "free_symbols",
    "guarded_equal",
    "guarded_less",
    "image_field",
    "is_integer",
    "lower_bound",
    "may_exceed_one",
    "new_symbol",
    "parse_size",
    "parse_symfloat",
    "round_to_dtype",
    "size_hint",
    "solve_equalities",
    "statically_known_equal",
    "statically_known_ge",
    "statically_known_nonnegative",
    "substitute",
    "sufficient_bits",
    "sym_max",
    "upper_bound",
]
