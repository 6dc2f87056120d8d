"""Instructions of control flow: branches, calls, barriers, and the header of a map."""

from __future__ import annotations

from ftm_backend.target.instruction import (
    ARGUMENTS,
    FUNCTION,
    LABEL,
    MAP_HEADER,
    Cost,
    InstructionDef,
    InstructionExample,
    OperandDef,
)
from ftm_backend.target.instructions.scalar import store_register

_BRANCH = Cost((("SBR", 1),), 7, "branch")

INSTRUCTIONS = (
    InstructionDef(
        "SBR",
        "control",
        (OperandDef("label", LABEL),),
        "Jumps to a label of the same function; with a predicate only if it holds.",
        "next = label",
        _BRANCH,
        store_register(
            "    SMOV 0, r1\n"
            "  LOOP_main_0: 1, 10\n"
            "    SADD r1, 1, r1\n"
            "    SLT r1, 5, r2\n"
            "  [r2] SBR LOOP_main_0\n",
            "r1",
            5,
        ),
    ),
    InstructionDef(
        "@call",
        "control",
        (OperandDef("f", FUNCTION), OperandDef("arguments", ARGUMENTS)),
        "Binds the parameters of another function in their order and runs it to its @ret. A buffer "
        "parameter (`@param`) is bound to an address, which becomes its element 0; it ends where "
        "the buffer ends. A scalar parameter (`@scalar` in a function) is bound to a value. "
        "Registers are shared; recursion is not allowed.",
        "bind arguments; run f",
        _BRANCH,
        InstructionExample(
            "  @tile X, am, f32, 1x2, 1, 0\n"
            "    SMOV 2, r1\n"
            "    @call copy, b0[1], o0[0], 0\n"
            "    @call copy, b0[r1], o0[0], r1\n"
            "@ret\n"
            "@func copy\n"
            "  @param from, f32\n"
            "  @param to, f32, out\n"
            "  @scalar at, i64\n"
            "  @tile X, am, f32, 1x2, 1, 0\n"
            "    DLD from[0], 1@1 | 2@1, X\n"
            "    DWAITALL\n"
            "    SMOV at, r2\n"
            "    DST X, to[r2], 1@1 | 2@1\n"
            "    DWAITALL\n",
            {"b0": ("f32", (4,), [1, 2, 3, 4])},
            {"o0": ("f32", (4,), [2, 3, 3, 4])},
        ),
    ),
    InstructionDef(
        "@ret",
        "control",
        (),
        "Ends a function: execution returns to the caller; the end of main ends the program.",
        "return",
        _BRANCH,
        store_register("    SMOV 7, r1\n", "r1", 7),
    ),
    InstructionDef(
        "BARRIER",
        "control",
        (),
        "Waits until every core has arrived and all DMA is complete. Stores of any core before the "
        "barrier are visible after it.",
        "for all cores: DWAITALL; wait",
        Cost((("SBR", 1),), 50, "barrier"),
        store_register("    SMOV 7, r1\n    BARRIER\n", "r1", 7),
    ),
    InstructionDef(
        "@map",
        "control",
        (OperandDef("header", MAP_HEADER),),
        "Runs the body up to @endmap for each element of R x C, and sets the current extents of "
        "the output tiles.",
        "for i in 0..R-1, j in 0..C-1: inputs; body; outputs",
        Cost((), 0, "map"),
        InstructionExample(
            "  @tile X, am, f32, 2x3, 1, 0\n"
            "  @tile S, am, f32, 2x1, 1, 64\n"
            "  @tile Y, am, f32, 2x3, 1, 128\n"
            "  @tile Q, am, f32, 2x1, 1, 192\n"
            "    DLD b0[0], 2@3 | 3@1, X\n"
            "    DLD b1[0], 2@1 | 1@1, S\n"
            "    DWAITALL\n"
            "    @map 2 x 3, X:v0, S:v1.col -> Y:v2, Q:v2.rsum\n"
            "      VMUL.F32 v0, v1, v2\n"
            "    @endmap\n"
            "    DST Y, o0[0], 2@3 | 3@1\n"
            "    DST Q, o1[0], 2@1 | 1@1\n",
            {"b0": ("f32", (2, 3), [1, 2, 3, 4, 5, 6]), "b1": ("f32", (2,), [10, 100])},
            {"o0": ("f32", (2, 3), [10, 20, 30, 400, 500, 600]), "o1": ("f32", (2,), [60, 1500])},
        ),
    ),
)
