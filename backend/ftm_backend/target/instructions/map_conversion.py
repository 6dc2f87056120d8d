"""Map operations: conversion between types, positions, random bits, and gathers from DDR."""

from __future__ import annotations

from ftm_backend.target.element_types import ALL
from ftm_backend.target.instruction import ADDRESS, FROM, Cost, InstructionDef, MacroDef, OperandDef
from ftm_backend.target.instructions.map_rows import EXPANDED, VIEU1, example, operation

_FAMILY = "map conversion"
_CONVERT = Cost((("VMAC1", 1),), 3)
_REINTERPRET = Cost((), 0)
"""Free: registers have no type."""

INSTRUCTIONS = (
    operation(
        "VCVT",
        _FAMILY,
        "a",
        "Converts, `VCVT.<to>.<from>`. Between floats: rounds to nearest, ties to even. Float to "
        "integer: truncates. For NaN and values out of range, I64 gets its most negative number "
        "and I32 its own; narrower types take the low bits of the conversion to I32. Integer to "
        "narrower integer: the low bits. To B1: a != 0 (NaN is true). From B1: 0 or 1.",
        "d = to(a)",
        ALL,
        _CONVERT,
        example("VCVT.I32.F32 v0, v9", ("I32", [1, -1, -(2**31)]), ("F32", [1.9, -1.9, 3e9])),
        kinds=(FROM,),
        from_types=ALL,
    ),
    operation(
        "VBITC",
        _FAMILY,
        "a",
        "Reinterprets the bits of a type of the same size, `VBITC.<to>.<from>`.",
        "bits of d = bits of a",
        ALL,
        _REINTERPRET,
        example("VBITC.I32.F32 v0, v9", ("I32", [0x3F800000, -(2**31)]), ("F32", [1.0, -0.0])),
        kinds=(FROM,),
        from_types=ALL,
    ),
    operation(
        "VIDX",
        _FAMILY,
        "brc",
        "Position of the element: base b, row step r and column step c (immediates, registers or "
        "scalars).",
        "d = b + i * r + j * c, for element (i, j) of the map",
        (),
        VIEU1,
        example("VIDX 100, 10, 2, v9", ("I64", [100, 102, 104]), ("F32", [0, 0, 0])),
        kinds=("I64", "I64", "I64"),
        result="I64",
    ),
    operation(
        "VPHILOX",
        _FAMILY,
        "iso",
        "32 random bits: word i mod 4 of Philox4x32-10 with the 128-bit counter (low half "
        "floor(i / 4), high half o) and key s, each as 64 unsigned bits, low word first.",
        "d = philox4x32_10(counter = (i >> 2, o), key = s)[i & 3]",
        (),
        EXPANDED,
        # The first block of the published known-answer test: counter 0, key 0.
        example(
            "VIDX 0, 0, 1, v5\n      VPHILOX v5, 0, 0, v9",
            ("I32", [0x6627E8D5, 0xE169C58D - 2**32, 0xBC57AC4C - 2**32, 0x9B00DBD8 - 2**32]),
            ("F32", [0] * 4),
        ),
        kinds=("I64", "I64", "I64"),
        result="I32",
        macro=MacroDef("philox.philox", ("I32",)),
    ),
    InstructionDef(
        "VGA",
        _FAMILY,
        (OperandDef("a", ADDRESS), OperandDef("i", "I64"), OperandDef("d", "T")),
        "Gathers elements of a DDR buffer of the operation's type (i8 and u8 count as the same); "
        "an index outside the buffer is a fault.",
        "d = a[i]",
        Cost((("VLDST", 2),), 0, "gather"),
        example(
            "VGA.F32 b1[1], v0, v9",
            ("F32", [40, 20]),
            ("I64", [2, 0]),
            ("F32", [10, 20, 30, 40]),
        ),
        types=ALL,
        macro=MacroDef("transpose_gather_scatter.gather"),
    ),
)
