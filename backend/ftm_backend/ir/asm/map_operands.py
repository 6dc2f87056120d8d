"""Parses operands of ``@map``: inputs ``slot:vN[.access]``, outputs ``slot:vN[.red[.acc]]``."""

from __future__ import annotations

import re
from collections.abc import Callable

from ftm_backend.ir.asm import operand_parser
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.operand_parser import OperandError
from ftm_backend.target.instruction_table import ACCESSES, REDUCTIONS, SCOPES

_WORD = re.compile(r"(.+?)\s*:\s*v(\d+)((?:\.\w+)*)", re.ASCII)
_REDUCED = {f"{scope}{op}": (scope, op) for scope in SCOPES[1:] for op in REDUCTIONS}


def map_input(word: str, slot: Callable[[str], p.SlotT]) -> p.MapInput[p.SlotT]:
    """Parse an input of a map, its slot by ``slot``; raise OperandError if it is none."""
    tile, register, suffixes = _read(word, slot)
    access = suffixes[0] if suffixes else "full"
    if len(suffixes) > 1 or access not in ACCESSES:
        raise OperandError(
            f"unknown access in {word!r}: use .row (1xC), .col (Rx1), .one (1x1) or nothing"
        )
    return p.MapInput(tile, register, access)


def map_output(word: str, slot: Callable[[str], p.SlotT]) -> p.MapOutput[p.SlotT]:
    """Parse an output of a map, its slot by ``slot``; raise OperandError if it is none."""
    tile, register, suffixes = _read(word, slot)
    if not suffixes:
        return p.MapOutput(tile, register)
    return p.MapOutput(tile, register, *reduction(".".join(suffixes)))


def reduction(word: str) -> tuple[str, str, bool]:
    """Return scope and reduction of a word such as ``rsum.acc``, and whether it accumulates."""
    name, _, more = word.partition(".")
    if name not in _REDUCED or more not in ("", "acc"):
        raise OperandError(
            f"unknown reduction {word!r}: use .r (Rx1), .c (1xC) or .a (1x1) with "
            "sum prod min max and or, then .acc to combine with what the tile holds"
        )
    return *_REDUCED[name], more == "acc"


def _read(word: str, slot: Callable[[str], p.SlotT]) -> tuple[p.SlotT, int, list[str]]:
    match = _WORD.fullmatch(word)
    if match is None:
        raise OperandError(f"expected slot:register, such as X[r5]:v0 or S:v1.col, found {word!r}")
    return slot(match[1]), operand_parser.whole(match[2]), match[3].split(".")[1:]
