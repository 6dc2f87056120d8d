"""Instructions along the rows of a tile: scan, sort and merge."""

from __future__ import annotations

from ftm_backend.target.instruction import (
    SLOT,
    Cost,
    InstructionDef,
    InstructionExample,
    MacroDef,
    OperandDef,
)

_CARRY = "    @map 2 x 1 -> C:v0\n      VMOV.F64 100.0, v0\n    @endmap\n"

INSTRUCTIONS = (
    InstructionDef(
        "SCAN",
        "order",
        (OperandDef("X", SLOT), OperandDef("C", SLOT), OperandDef("Y", SLOT)),
        "Inclusive scan of each row of X, or with `.DOWN` of each column: every element of Y "
        "combines C and all elements of X up to it. C is Rx1 (1xC with `.DOWN`), f64 if X has "
        "floats and i64 otherwise. It holds the result for everything before the tile and receives "
        "the total, so that the next tile can continue. X and Y have the same type and may be the "
        "same slot; sums are kept in C's type and rounded when they are stored. `.ADD`, `.MUL`, "
        "`.MIN`, `.MAX`, or for floats `.LSE`: log(exp(a) + exp(b)). `.MIN` and `.MAX` propagate "
        "NaN and take the later of equal elements; integers wrap.",
        "C[i] = Y[i][j] = C[i] (+) X[i][j], j ascending",
        Cost((), 0, "scan"),
        InstructionExample(
            "  @tile X, am, f32, 2x3, 1, 0\n"
            "  @tile C, am, f64, 2x1, 1, 64\n"
            "  @tile Y, am, f32, 2x3, 1, 128\n"
            "    DLD b0[0], 2@3 | 3@1, X\n    DWAIT X\n"
            + _CARRY
            + "    SCAN.ADD X, C, Y\n    DST Y, o0[0], 2@3 | 3@1\n    DST C, o1[0], 2@1 | 1@1\n",
            {"b0": ("f32", (2, 3), [1, 2, 3, 4, 5, 6])},
            {
                "o0": ("f32", (2, 3), [101, 103, 106, 104, 109, 115]),
                "o1": ("f64", (2,), [106, 115]),
            },
        ),
        suffixes=(("ADD", "MUL", "MIN", "MAX", "LSE"), "DOWN"),
        macro=MacroDef("scan.scan"),
    ),
    InstructionDef(
        "SORT",
        "order",
        (OperandDef("X", SLOT), OperandDef("Y", SLOT)),
        "Sorts each row of X, a tile of i64, into Y; X and Y may be the same slot. If Y has fewer "
        "columns than X it receives the smallest elements of each row. To sort other keys, a map "
        "encodes them as i64: the key in the upper bits and its position in the lower ones give a "
        "stable sort and the permutation.",
        "Y[i] = the smallest elements of X[i], ascending",
        Cost((), 0, "sort"),
        InstructionExample(
            "  @tile X, am, i64, 2x4, 1, 0\n"
            "    DLD b0[0], 2@4 | 4@1, X\n"
            "    DWAIT X\n"
            "    SORT X, X\n"
            "    DST X, o0[0], 2@4 | 4@1\n",
            {"b0": ("i64", (2, 4), [3, -1, 2, 2, 7, 5, 6, -8])},
            {"o0": ("i64", (2, 4), [-1, 2, 2, 3, -8, 5, 6, 7])},
        ),
        macro=MacroDef("sorting_networks.sort"),
    ),
    InstructionDef(
        "MERGE",
        "order",
        (OperandDef("A", SLOT), OperandDef("B", SLOT), OperandDef("Y", SLOT)),
        "Merges row i of A with row i of B, both sorted, into row i of Y; all are tiles of i64. Y "
        "must not overlap A or B, which must have the same number of current rows; its columns "
        "become the sum of theirs.",
        "Y[i] = the elements of A[i] and B[i], ascending",
        Cost((), 0, "merge"),
        InstructionExample(
            "  @tile A, am, i64, 1x2, 1, 0\n"
            "  @tile B, am, i64, 1x3, 1, 64\n"
            "  @tile Y, am, i64, 1x5, 1, 128\n"
            "    DLD b0[0], 1@1 | 2@1, A\n"
            "    DLD b1[0], 1@1 | 3@1, B\n"
            "    DWAITALL\n"
            "    MERGE A, B, Y\n"
            "    DST Y, o0[0], 1@1 | 5@1\n",
            {"b0": ("i64", (2,), [2, 9]), "b1": ("i64", (3,), [-4, 2, 5])},
            {"o0": ("i64", (5,), [-4, 2, 2, 5, 9])},
        ),
        macro=MacroDef("sorting_networks.merge"),
    ),
)
