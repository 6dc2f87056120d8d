"""Map operations: arithmetic, minimum and maximum."""

from __future__ import annotations

from math import inf, nan

from ftm_backend.instructions.families.mapping import EXPANDED, FMA, MOVE, MUL, VIEU1, example, operation
from ftm_backend.instructions.instruction import Macro
from ftm_backend.instructions.types import ALL, FLOATS, NUMBERS

_FAMILY = "map arithmetic"
_COMPARED = (*FLOATS, "I64")
"""Types whose smaller and larger numbers no instruction gives: a compare and a predicated move do."""

INSTRUCTIONS = (
    operation("VMOV", _FAMILY, "a", "Copies.", "d = a", ALL, MOVE,
              example("VMOV.F32 v0, v9", ("F32", [1, -2]), ("F32", [1, -2]))),
    operation("VADD", _FAMILY, "ab", "Adds; integers wrap.", "d = a + b", NUMBERS, FMA,
              example("VADD.F32 v0, v1, v9", ("F32", [11, 18]), ("F32", [1, -2]), ("F32", [10, 20])),
              elements="arith.addi"),
    operation("VSUB", _FAMILY, "ab", "Subtracts; integers wrap.", "d = a - b", NUMBERS, FMA,
              example("VSUB.F32 v0, v1, v9", ("F32", [-9, -22]), ("F32", [1, -2]), ("F32", [10, 20])),
              elements="arith.subi"),
    operation("VMUL", _FAMILY, "ab", "Multiplies; integers wrap.", "d = a * b", NUMBERS, MUL,
              example("VMUL.U8 v0, 3, v9", ("U8", [30, 88]), ("U8", [10, 200])),
              elements="arith.mulf arith.muli"),
    operation("VFMA", _FAMILY, "abc", "Multiplies and adds; floats round once, or after the product as well.",
              "d = a * b + c", NUMBERS, FMA,
              example("VFMA.F32 v0, 2.0, v1, v9", ("F32", [12, 16]), ("F32", [1, -2]), ("F32", [10, 20])),
              elements="math.fma"),
    operation("VDIV", _FAMILY, "ab",
              "Divides: floats as IEEE 754, integers rounding towards zero; an integer divisor of 0 gives 0, and "
              "the most negative number by -1 wraps.",
              "d = a / b, for integers trunc(a / b)", NUMBERS, EXPANDED,
              example("VDIV.I32 v0, v1, v9", ("I32", [-3, 3, 0]), ("I32", [-7, 7, 7]), ("I32", [2, 2, 0])),
              macro=Macro("division.divide", NUMBERS),
              elements="arith.divsi"),
    operation("VREM", _FAMILY, "ab",
              "Remainder with the sign of the dividend, as C's fmod and %; an integer divisor of 0 gives 0.",
              "d = a - b * trunc(a / b)", NUMBERS, EXPANDED,
              example("VREM.I32 v0, v1, v9", ("I32", [-1, 1, 0]), ("I32", [-7, 7, 7]), ("I32", [2, -2, 0])),
              macro=Macro("division.remainder", NUMBERS),
              elements="arith.remf arith.remsi", exact=True),
    operation("VNEG", _FAMILY, "a", "Changes the sign; integers wrap.", "d = -a", NUMBERS, MOVE,
              example("VNEG.F32 v0, v9", ("F32", [-1, 2, -inf]), ("F32", [1, -2, inf])),
              elements="arith.negf", exact=True),
    operation("VABS", _FAMILY, "a", "Absolute value; the most negative integer stays.", "d = |a|", NUMBERS, MOVE,
              example("VABS.F32 v0, v9", ("F32", [1, 2, inf]), ("F32", [1, -2, -inf])),
              elements="math.absf math.absi", exact=True),
    operation("VMIN", _FAMILY, "ab", "The smaller, of equals (-0 and 0 are) the first; a NaN in either operand gives NaN.", "d = min(a, b)",
              NUMBERS, VIEU1,
              example("VMIN.F32 v0, v1, v9", ("F32", [1, nan, nan]), ("F32", [1, nan, 3]), ("F32", [2, 2, nan])),
              macro=Macro("selection.minimum", _COMPARED, widened=False),
              elements="arith.minimumf arith.minsi", exact=True),
    operation("VMAX", _FAMILY, "ab", "The larger, of equals (-0 and 0 are) the first; a NaN in either operand gives NaN.", "d = max(a, b)",
              NUMBERS, VIEU1,
              example("VMAX.F32 v0, v1, v9", ("F32", [2, nan, nan, -0.0]), ("F32", [1, nan, 3, -0.0]), ("F32", [2, 2, nan, 0])),
              macro=Macro("selection.maximum", _COMPARED, widened=False),
              elements="arith.maximumf arith.maxsi", exact=True),
    operation("VMINN", _FAMILY, "ab", "The smaller, of equals (-0 and 0 are) the first; NaN only if both are.",
              "d = b if a is NaN, a if b is NaN, else min(a, b)", FLOATS, EXPANDED,
              example("VMINN.F32 v0, v1, v9", ("F32", [1, 2, 3]), ("F32", [1, nan, 3]), ("F32", [2, 2, nan])),
              macro=Macro("selection.minimum_number", FLOATS, widened=False),
              elements="arith.minnumf", exact=True),
    operation("VMAXN", _FAMILY, "ab", "The larger, of equals (-0 and 0 are) the first; NaN only if both are.",
              "d = b if a is NaN, a if b is NaN, else max(a, b)", FLOATS, EXPANDED,
              example("VMAXN.F32 v0, v1, v9", ("F32", [2, 2, 3]), ("F32", [1, nan, 3]), ("F32", [2, 2, nan])),
              macro=Macro("selection.maximum_number", FLOATS, widened=False),
              elements="arith.maxnumf", exact=True),
    operation("VCOPYSIGN", _FAMILY, "ab", "The magnitude of a with the sign of b.", "d = |a| * sign(b)", FLOATS, EXPANDED,
              example("VCOPYSIGN.F32 v0, v1, v9", ("F32", [-1, 2]), ("F32", [1, -2]), ("F32", [-0.0, 0.0])),
              macro=Macro("selection.copy_sign", FLOATS),
              elements="math.copysign", exact=True),
)
