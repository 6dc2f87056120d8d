"""Scalar instructions: address arithmetic on 64-bit integer registers."""

from __future__ import annotations

from ftm_backend.target.instruction import (
    ADDRESS,
    REGISTER,
    SCALAR,
    Cost,
    InstructionDef,
    InstructionExample,
    OperandDef,
)

_ALU = Cost((("SMAC", 1),), 1)
_LOAD = Cost((("SLDST", 1),), 7)


def store_register(body: str, register: str, value: int) -> InstructionExample:
    """Make an example of scalar code: it fills a 1x1 tile with ``register`` and stores it."""
    text = (
        "  @tile X, am, i64, 1x1, 1, 0\n"
        + body
        + f"    @map 1 x 1 -> X:v0\n      VMOV.I64 {register}, v0\n    @endmap\n"
        "    DST X, o0[0], 1@1 | 1@1\n"
    )
    return InstructionExample(text, {}, {"o0": ("i64", (1,), [value])})


def _binary(name: str, doc: str, formula: str, a: int, b: int, value: int) -> InstructionDef:
    return InstructionDef(
        name,
        "scalar",
        (OperandDef("a", SCALAR), OperandDef("b", SCALAR), OperandDef("d", REGISTER)),
        doc,
        formula,
        _ALU,
        store_register(f"    SMOV {a}, r1\n    {name} r1, {b}, r2\n", "r2", value),
    )


INSTRUCTIONS = (
    InstructionDef(
        "SMOV",
        "scalar",
        (OperandDef("a", SCALAR), OperandDef("d", REGISTER)),
        "Copies a register, an immediate or an i64 program scalar.",
        "d = a",
        _ALU,
        store_register("    SMOV 42, r1\n    SMOV r1, r2\n", "r2", 42),
    ),
    _binary("SADD", "Adds; wraps at 64 bits.", "d = a + b", 40, 2, 42),
    _binary("SSUB", "Subtracts; wraps at 64 bits.", "d = a - b", 40, 2, 38),
    _binary("SMUL", "Multiplies; wraps at 64 bits.", "d = a * b", -6, 7, -42),
    _binary(
        "SDIV",
        "Divides and rounds down; a divisor of 0 gives 0.",
        "d = floor(a / b)",
        -7,
        2,
        -4,
    ),
    _binary(
        "SREM",
        "Remainder of SDIV, with the sign of the divisor; a divisor of 0 gives 0.",
        "d = a - b * floor(a / b)",
        -7,
        3,
        2,
    ),
    _binary("SMIN", "The smaller of two signed numbers.", "d = min(a, b)", -3, 5, -3),
    _binary("SMAX", "The larger of two signed numbers.", "d = max(a, b)", -3, 5, 5),
    _binary("SLT", "Signed less-than, as 0 or 1.", "d = a < b", -3, 5, 1),
    _binary("SEQ", "Equality, as 0 or 1.", "d = a == b", 5, 6, 0),
    _binary("SNE", "Inequality, as 0 or 1.", "d = a != b", 5, 6, 1),
    InstructionDef(
        "SCID",
        "scalar",
        (OperandDef("d", REGISTER),),
        "The number of this core, from 0.",
        "d = core",
        _ALU,
        store_register("    SCID r1\n    SLT r1, 64, r2\n", "r2", 1),
    ),
    InstructionDef(
        "SNC",
        "scalar",
        (OperandDef("d", REGISTER),),
        "The number of cores that run the program.",
        "d = cores",
        _ALU,
        store_register("    SNC r1\n    SLT 0, r1, r2\n", "r2", 1),
    ),
    InstructionDef(
        "SLDI",
        "scalar",
        (OperandDef("a", ADDRESS), OperandDef("d", REGISTER)),
        "Loads one integer from a DDR buffer of an integer type, or of i1 as 0 or 1; an address "
        "outside the buffer is a fault.",
        "d = a",
        _LOAD,
        InstructionExample(
            "  @tile X, am, i64, 1x1, 1, 0\n    SMOV 1, r1\n    SLDI b0[r1+1], r2\n"
            "    @map 1 x 1 -> X:v0\n"
            "      VMOV.I64 r2, v0\n"
            "    @endmap\n"
            "    DST X, o0[0], 1@1 | 1@1\n",
            {"b0": ("i32", (4,), [10, 20, -30, 40])},
            {"o0": ("i64", (1,), [-30])},
        ),
    ),
)
