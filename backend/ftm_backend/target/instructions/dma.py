"""DMA instructions: asynchronous transfers between DDR buffers and tiles.

Completion is tracked per slot.
"""

from __future__ import annotations

from ftm_backend.target.instruction import (
    ADDRESS,
    DIMS,
    ROW_DIMS,
    SIDES,
    SLOT,
    Cost,
    InstructionDef,
    InstructionExample,
    MacroDef,
    OperandDef,
)

_DMA = Cost((("DMA", 1),), 62, "dma")
_WAIT = Cost((("SBR", 1),), 1, "wait")

_TILE = "  @tile X, am, f32, 4x4, 1, 0\n"
_INDEX = "  @tile I, am, i64, 3x1, 1, 64\n"
_MATRIX = ("f32", (3, 2), [1, 2, 3, 4, 5, 6])
_LOAD_INDEX = "    DLD b1[0], 3@1 | 1@1, I\n    DWAIT I\n"


def _scatter(suffix: str, values: list[float]) -> InstructionExample:
    return InstructionExample(
        _TILE
        + _INDEX
        + "  @tile Y, am, f32, 4x4, 1, 128\n"
        + _LOAD_INDEX
        + "    @map 3 x 2 -> Y:v0\n"
        "      VMOV.F32 10.0, v0\n"
        "    @endmap\n"
        "    DST Y, o0[0], 3@2 | 2@1\n"
        "    DLD b0[0], 3@2 | 2@1, X\n"
        "    DWAIT X\n"
        f"    DSC{suffix} X, I, o0[0], 2 | 2@1\n",
        {"b0": _MATRIX, "b1": ("i64", (3,), [2, 0, 2])},
        {"o0": ("f32", (3, 2), values)},
    )


INSTRUCTIONS = (
    InstructionDef(
        "DLD",
        "dma",
        (OperandDef("a", ADDRESS), OperandDef("dims", DIMS), OperandDef("X", SLOT)),
        "Starts a transfer from a buffer into a slot and sets the slot's current extents. The "
        "extents left of the bar make the rows, those right of it the columns. A stride of 0 "
        "repeats, a negative one reverses. Tile and buffer have the same type; i8 and u8 count as "
        "the same.",
        "X[i][j] = a[sum(row index * stride) + sum(column index * stride)], "
        "i and j row-major over their extents",
        _DMA,
        InstructionExample(
            _TILE + "    DLD b0[1], 2@1 | 3@2, X\n    DWAIT X\n    DST X, o0[0], 2@3 | 3@1\n",
            {"b0": ("f32", (8,), [0, 1, 2, 3, 4, 5, 6, 7])},
            {"o0": ("f32", (2, 3), [1, 3, 5, 2, 4, 6])},
        ),
    ),
    InstructionDef(
        "DLB",
        "dma",
        (
            OperandDef("a", ADDRESS),
            OperandDef("dims", DIMS),
            OperandDef("sides", SIDES),
            OperandDef("X", SLOT),
        ),
        "`DLD` from a buffer as if it were padded with zeros. Left of the bar of `sides` are the "
        "extents of the buffer's innermost dimensions, each with the padding before it; right of "
        "it are their padded extents and the strides of the padded buffer, which is dense. Other "
        "dimensions have no padding. The address and the strides of `dims` count elements as if "
        "the padding were in memory. Elements of the padding are not read, but take as long as "
        "others.",
        "X[i][j] = 0 in the padding, else a without it, at "
        "sum(row index * stride) + sum(column index * stride)",
        _DMA,
        InstructionExample(
            "  @tile X, am, f32, 4x4, 1, 0\n"
            "    DLB b0[0], 4@4 | 4@1, 2@1 2@1 | 4@4 4@1, X\n"
            "    DWAIT X\n"
            "    DST X, o0[0], 4@4 | 4@1\n",
            {"b0": ("f32", (2, 2), [1, 2, 3, 4])},
            {"o0": ("f32", (4, 4), [0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0])},
        ),
        macro=MacroDef("transpose_gather_scatter.load_bordered"),
    ),
    InstructionDef(
        "DST",
        "dma",
        (OperandDef("X", SLOT), OperandDef("a", ADDRESS), OperandDef("dims", DIMS)),
        "Starts a transfer from a slot into a buffer; the extents must not exceed the slot's "
        "current ones.",
        "a[sum(row index * stride) + sum(column index * stride)] = X[i][j], in row-major order",
        _DMA,
        InstructionExample(
            _TILE + "    DLD b0[0], 3@2 | 2@1, X\n    DWAIT X\n    DST X, o0[0], 3@1 | 2@3\n",
            {"b0": _MATRIX},
            {"o0": ("f32", (2, 3), [1, 3, 5, 2, 4, 6])},
        ),
    ),
    InstructionDef(
        "DGA",
        "dma",
        (
            OperandDef("a", ADDRESS),
            OperandDef("I", SLOT),
            OperandDef("dims", ROW_DIMS),
            OperandDef("X", SLOT),
        ),
        "Starts a gather of rows: one row for each element of I (i64 or i32, row-major over its "
        "current extents). I is read when the transfer starts. An address outside the buffer is a "
        "fault.",
        "X[i][j] = a[I[i] * stride + sum(column index * column stride)]",
        _DMA,
        InstructionExample(
            _TILE
            + _INDEX
            + _LOAD_INDEX
            + "    DGA b0[0], I, 2 | 2@1, X\n    DWAIT X\n    DST X, o0[0], 3@2 | 2@1\n",
            {"b0": _MATRIX, "b1": ("i64", (3,), [2, 0, 2])},
            {"o0": ("f32", (3, 2), [5, 6, 1, 2, 5, 6])},
        ),
    ),
    InstructionDef(
        "DSC",
        "dma",
        (
            OperandDef("X", SLOT),
            OperandDef("I", SLOT),
            OperandDef("a", ADDRESS),
            OperandDef("dims", ROW_DIMS),
        ),
        "Starts a scatter of rows in the order of i, so the last of equal indices wins. `.ADD .MUL "
        ".MIN .MAX` combine a row with the content of the buffer (MIN and MAX propagate NaN). An "
        "address outside the buffer is a fault.",
        "a[I[i] * stride + sum(column index * column stride)] (op)= X[i][j]",
        _DMA,
        _scatter(".ADD", [13, 14, 10, 10, 16, 18]),
        suffixes=(("ADD", "MUL", "MIN", "MAX"),),
        macro=MacroDef("transpose_gather_scatter.store_combined"),
    ),
    InstructionDef(
        "DCP",
        "dma",
        (OperandDef("X", SLOT), OperandDef("Y", SLOT)),
        "Starts a transfer from one tile to another of the same type, such as from GSM to AM; the "
        "current extents are copied as well.",
        "Y = X",
        _DMA,
        InstructionExample(
            _TILE + "  @tile G, gsm, f32, 4x4, 1, 0\n  @tile Y, am, f32, 4x4, 1, 64\n"
            "    DLD b0[0], 3@2 | 2@1, X\n"
            "    DWAIT X\n"
            "    DCP X, G\n"
            "    DWAIT G\n"
            "    DCP G, Y\n"
            "    DWAIT Y\n"
            "    DST Y, o0[0], 3@2 | 2@1\n",
            {"b0": _MATRIX},
            {"o0": _MATRIX},
        ),
    ),
    InstructionDef(
        "DCW",
        "dma",
        (OperandDef("X", SLOT), OperandDef("dims", DIMS), OperandDef("Y", SLOT)),
        "Starts a transfer of a strided view of one tile into another of the same type, such as "
        "the windows of a pooling from the feature map. The extents left of the bar make the rows "
        "of Y, those right of it its columns. Strides count elements of the slot's memory, whose "
        "rows are as far apart as the tile is wide. Along a negative stride indices count from the "
        "last element; a stride of 0 repeats. Every element must be in the slot's current extents.",
        "Y[i][j] = X[sum(row index * stride) + sum(column index * stride)]",
        _DMA,
        InstructionExample(
            _TILE + "  @tile Y, am, f32, 4x4, 1, 64\n"
            "    DLD b0[0], 3@2 | 2@1, X\n"
            "    DWAIT X\n"
            "    DCW X, 2@4 | 2@1, Y\n"
            "    DWAIT Y\n"
            "    DST Y, o0[0], 2@2 | 2@1\n",
            {"b0": _MATRIX},
            {"o0": ("f32", (2, 2), [1, 2, 3, 4])},
        ),
    ),
    InstructionDef(
        "DWAIT",
        "dma",
        (OperandDef("X", SLOT),),
        "Waits until every transfer from or into the slot is complete.",
        "wait for X",
        _WAIT,
        InstructionExample(
            _TILE + "    DLD b0[0], 3@2 | 2@1, X\n"
            "    DWAIT X\n"
            "    DST X, o0[0], 3@2 | 2@1\n"
            "    DWAIT X\n",
            {"b0": _MATRIX},
            {"o0": _MATRIX},
        ),
    ),
    InstructionDef(
        "DWAITALL",
        "dma",
        (),
        "Waits until every transfer of this core is complete.",
        "wait for all slots",
        _WAIT,
        InstructionExample(
            _TILE + "    DLD b0[0], 3@2 | 2@1, X\n"
            "    DWAITALL\n"
            "    DST X, o0[0], 3@2 | 2@1\n"
            "    DWAITALL\n",
            {"b0": _MATRIX},
            {"o0": _MATRIX},
        ),
    ),
)
