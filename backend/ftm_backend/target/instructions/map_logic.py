"""Map operations: bits, shifts, comparisons and selection."""

from __future__ import annotations

from math import nan

from ftm_backend.target.element_types import ALL, INTEGERS
from ftm_backend.target.instruction import SAME, InstructionDef
from ftm_backend.target.instructions.map_rows import MOVE, VIEU1, example, operation

_FAMILY = "map logic"
_BITS = INTEGERS + ("B1",)


def _compare(
    name: str, relation: str, doc: str, expected: list[bool], mirrors: str = ""
) -> InstructionDef:
    inputs = ("F32", [1, 2, 3, nan]), ("F32", [2, 2, 2, 2])
    return operation(
        name,
        _FAMILY,
        "ab",
        doc,
        f"d = a {relation} b",
        ALL,
        MOVE,
        example(f"{name}.F32 v0, v1, v9", ("B1", expected), *inputs),
        result="B1",
        exact=True,
        mirrors=mirrors,
    )


def _pair(name: str, doc: str, formula: str, expected: list[int], element: str) -> InstructionDef:
    inputs = ("I32", [12, -1]), ("I32", [10, 5])
    shown = example(f"{name}.I32 v0, v1, v9", ("I32", expected), *inputs)
    return operation(name, _FAMILY, "ab", doc, formula, _BITS, VIEU1, shown, elements=element)


INSTRUCTIONS = (
    _pair("VAND", "Bitwise and.", "d = a & b", [8, 5], "arith.andi"),
    _pair("VOR", "Bitwise or.", "d = a | b", [14, -1], "arith.ori"),
    _pair("VXOR", "Bitwise exclusive or.", "d = a ^ b", [6, -6], "arith.xori"),
    operation(
        "VNOT",
        _FAMILY,
        "a",
        "Bitwise complement; for a boolean its negation.",
        "d = ~a",
        _BITS,
        VIEU1,
        example("VNOT.B1 v0, v9", ("B1", [False, True]), ("B1", [True, False])),
    ),
    operation(
        "VSHL",
        _FAMILY,
        "ab",
        "Shifts left; a count outside 0..bits-1 gives 0.",
        "d = a << b",
        INTEGERS,
        VIEU1,
        example(
            "VSHL.I32 v0, v1, v9",
            ("I32", [6, -8, 0]),
            ("I32", [3, -1, 1]),
            ("I32", [1, 3, 32]),
        ),
        elements="arith.shli",
    ),
    operation(
        "VSHR",
        _FAMILY,
        "ab",
        "Shifts right, filling with the sign (U8: zeros); a count outside 0..bits-1 leaves only "
        "the sign.",
        "d = a >> b",
        INTEGERS,
        VIEU1,
        example(
            "VSHR.I32 v0, v1, v9",
            ("I32", [3, -1, -1]),
            ("I32", [6, -1, -5]),
            ("I32", [1, 3, 32]),
        ),
        elements="arith.shrsi",
    ),
    operation(
        "VSHRU",
        _FAMILY,
        "ab",
        "Shifts right, filling with zeros; a count outside 0..bits-1 gives 0.",
        "d = a >>> b",
        INTEGERS,
        VIEU1,
        example(
            "VSHRU.I32 v0, v1, v9",
            ("I32", [3, 1, 0]),
            ("I32", [6, -1, -5]),
            ("I32", [1, 31, 32]),
        ),
        elements="arith.shrui",
    ),
    _compare("VCMPEQ", "==", "Equal; false with NaN.", [False, True, False, False]),
    _compare("VCMPNE", "!=", "Not equal; true with NaN.", [True, False, True, True]),
    _compare("VCMPLT", "<", "Less; false with NaN.", [True, False, False, False]),
    _compare("VCMPLE", "<=", "Less or equal; false with NaN.", [True, True, False, False]),
    _compare("VCMPGT", ">", "Greater; false with NaN.", [False, False, True, False], "VCMPLT"),
    _compare(
        "VCMPGE", ">=", "Greater or equal; false with NaN.", [False, True, True, False], "VCMPLE"
    ),
    operation(
        "VSEL",
        _FAMILY,
        "mab",
        "Selects by a boolean.",
        "d = a if m else b",
        ALL,
        MOVE,
        example(
            "VSEL.F32 v0, v1, 0.0, v9",
            ("F32", [1, 0]),
            ("B1", [True, False]),
            ("F32", [1, 2]),
        ),
        kinds=("B1", SAME, SAME),
        elements="arith.select",
        exact=True,
    ),
)
