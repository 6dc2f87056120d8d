"""Matrix instructions: products on the FMA array, transposition and col2im."""

from __future__ import annotations

from ftm_backend.target.element_types import ACCUMULATORS
from ftm_backend.target.instruction import (
    DIMS,
    SLOT,
    Cost,
    InstructionDef,
    InstructionExample,
    MacroDef,
    OperandDef,
)

_LOADS = "    DLD b0[0], 2@2 | 2@1, A\n    DLD b1[0], 2@2 | 2@1, B\n    DWAITALL\n"

INSTRUCTIONS = (
    InstructionDef(
        "MM",
        "matrix",
        (OperandDef("A", SLOT), OperandDef("B", SLOT), OperandDef("C", SLOT)),
        "Matrix product of the tiles' current extents. `.TA`: A is stored as KxM. `.TB`: B is "
        "stored as NxK. `.ACC` adds to C, whose extents must be MxN already; without it C's "
        "current extents become MxN. Types (A and B to C): "
        f"{', '.join(f'{a} to {c}' for a, c in ACCUMULATORS.items())}. The order of the sum over "
        "k is not specified; integers wrap. K = 0 gives zeros. A result in f32 or f64 is within "
        "`(K + 1) * u * (|C| + sum of |A[m][k] * B[k][n]|)` of the exact one, where `u` is `2^-24` "
        "or `2^-53`. Products of bf16 may treat subnormal numbers as 0, in operands and in sums.",
        "C[m][n] (+)= sum over k of A[m][k] * B[k][n]",
        Cost((), 0, "mm"),
        InstructionExample(
            "  @tile A, sm, f32, 2x2, 1, 0\n"
            "  @tile B, am, f32, 2x2, 1, 0\n"
            "  @tile C, am, f32, 2x2, 1, 64\n"
            + _LOADS
            + "    MM A, B, C\n    MM.TA.ACC A, B, C\n    DST C, o0[0], 2@2 | 2@1\n",
            {"b0": ("f32", (2, 2), [1, 2, 3, 4]), "b1": ("f32", (2, 2), [1, 10, 100, 1000])},
            # A.B = [[201, 2010], [403, 4030]], At.B = [[301, 3010], [402, 4020]]
            {"o0": ("f32", (2, 2), [502, 5020, 805, 8050])},
        ),
        suffixes=("TA", "TB", "ACC"),
        macro=MacroDef("matmul.product"),
    ),
    InstructionDef(
        "MMW",
        "matrix",
        (
            OperandDef("A", SLOT),
            OperandDef("dims", DIMS),
            OperandDef("B", SLOT),
            OperandDef("C", SLOT),
        ),
        "Matrix product whose A is a strided view of a slot, whose elements several rows of A may "
        "share; for example the windows of a convolution in a feature map. The extents left of the "
        "bar make A's rows, those right of it its columns. Strides count elements of the slot's "
        "memory, whose rows are as far apart as the tile is wide. Along a negative stride indices "
        "count from the last element. Every element must be in the slot's current extents. `.ACC` "
        "and types are those of `MM`.",
        "C[m][n] (+)= sum over k of "
        "A[sum(row index * stride) + sum(column index * stride)] * B[k][n]",
        Cost((), 0, "mm"),
        InstructionExample(
            "  @tile A, sm, f32, 1x4, 1, 0\n"
            "  @tile B, am, f32, 2x1, 1, 0\n"
            "  @tile C, am, f32, 3x1, 1, 64\n"
            "    DLD b0[0], 1@4 | 4@1, A\n    DLD b1[0], 2@1 | 1@1, B\n    DWAITALL\n"
            "    MMW A, 3@1 | 2@1, B, C\n    DST C, o0[0], 3@1 | 1@1\n",
            {"b0": ("f32", (4,), [1, 2, 3, 4]), "b1": ("f32", (2,), [1, 10])},
            {"o0": ("f32", (3,), [21, 32, 43])},
        ),
        suffixes=("ACC",),
        macro=MacroDef("matmul.windows"),
    ),
    InstructionDef(
        "TRANS",
        "matrix",
        (OperandDef("X", SLOT), OperandDef("Y", SLOT)),
        "Transposes the current extents of a tile into another of the same type; X and Y must not "
        "overlap.",
        "Y[j][i] = X[i][j]",
        Cost((), 0, "trans"),
        InstructionExample(
            "  @tile X, am, f32, 2x3, 1, 0\n  @tile Y, am, f32, 3x2, 1, 64\n"
            "    DLD b0[0], 2@3 | 3@1, X\n"
            "    DWAIT X\n"
            "    TRANS X, Y\n"
            "    DST Y, o0[0], 3@2 | 2@1\n",
            {"b0": ("f32", (2, 3), [1, 2, 3, 4, 5, 6])},
            {"o0": ("f32", (3, 2), [1, 4, 2, 5, 3, 6])},
        ),
        macro=MacroDef("transpose_gather_scatter.transpose"),
    ),
    InstructionDef(
        "FOLD",
        "matrix",
        (OperandDef("X", SLOT), OperandDef("dims", DIMS), OperandDef("Y", SLOT)),
        "Adds windows into a feature map at the elements that they cover (`col2im`), which is the "
        "last step of a transposed convolution. `dims` has three groups with one entry per spatial "
        "dimension. Left of the bar: `taps@distance`, the number of taps of a window and their "
        "distance (dilation). Right of it: `windows@stride`, then `size@before`, the extent of the "
        "feature map and its padding before the first element. X has a row for each channel and "
        "tap, and a column for each image and window. Y gets a row for each channel, and a column "
        "for each element of each image. Taps outside of the feature map are dropped; elements "
        "that no window covers are 0. Types: f32, f64, i32, i64, the same on both sides; integers "
        "wrap; the order of a sum is not specified.",
        "Y[c][n, window * stride + tap * distance - before] += X[c, tap][n, window]",
        Cost((), 0, "fold"),
        InstructionExample(
            "  @tile X, am, f32, 2x3, 1, 0\n  @tile Y, am, f32, 1x4, 1, 64\n"
            "    DLD b0[0], 2@3 | 3@1, X\n"
            "    DWAIT X\n"
            "    FOLD X, 2@1 | 3@1 4@0, Y\n"
            "    DST Y, o0[0], 1@4 | 4@1\n",
            {"b0": ("f32", (2, 3), [1, 2, 3, 10, 20, 30])},
            {"o0": ("f32", (1, 4), [1, 12, 23, 30])},
        ),
        macro=MacroDef("col2im.fold"),
    ),
)
