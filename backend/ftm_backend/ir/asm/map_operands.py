"""Parses operands of ``@map``: inputs ``slot:vN[.access]``, outputs ``slot:vN[.red[.acc]]``."""

from __future__ import annotations

import re

from ftm_backend.ir.asm import operand_parser
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.operand_parser import OperandError, OperandParser
from ftm_backend.target.instruction_table import ACCESSES, REDUCTIONS, SCOPES

__all__ = ["map_input", "map_output"]

_WORD = re.compile(r"(.+?)\s*:\s*v(\d+)((?:\.\w+)*)", re.ASCII)
_REDUCED = {f"{scope}{op}": (scope, op) for scope in SCOPES[1:] for op in REDUCTIONS}


def map_input(word: str, operands: OperandParser) -> p.MapInput:
    """Parse an input of a map; raise OperandError if it is none."""
    tile, register, suffixes = _read(word, operands)
    access = suffixes[0] if suffixes else "full"
    if len(suffixes) > 1 or access not in ACCESSES:
        raise OperandError(
            f"unknown access in {word!r}: use .row (1xC), .col (Rx1), .one (1x1) or nothing"
        )
    return p.MapInput(tile, register, access)


def map_output(word: str, operands: OperandParser) -> p.MapOutput:
    """Parse an output of a map; raise OperandError if it is none."""
    tile, register, suffixes = _read(word, operands)
    accumulate = suffixes[-1:] == ["acc"]
    if accumulate:
        suffixes.pop()
    if not suffixes and not accumulate:
        return p.MapOutput(tile, register)
    if len(suffixes) != 1 or suffixes[0] not in _REDUCED:
        raise OperandError(
            f"unknown reduction in {word!r}: use .r (Rx1), .c (1xC) or .a (1x1) with "
            "sum prod min max and or, then .acc to combine with what the tile holds"
        )
    scope, reduction = _REDUCED[suffixes[0]]
    return p.MapOutput(tile, register, scope, reduction, accumulate)


def _read(word: str, operands: OperandParser) -> tuple[p.SlotReference, int, list[str]]:
    match = _WORD.fullmatch(word)
    if match is None:
        raise OperandError(f"expected slot:register, such as X[r5]:v0 or S:v1.col, found {word!r}")
    return operands.reference(match[1]), operand_parser.whole(match[2]), match[3].split(".")[1:]
