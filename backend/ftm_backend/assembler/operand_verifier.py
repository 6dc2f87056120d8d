"""Checks the operands of an instruction outside of maps against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ftm_backend.ir.asm import program as p
from ftm_backend.target.element_types import ACCUMULATORS

if TYPE_CHECKING:
    from ftm_backend.assembler.operand_encoder import OperandEncoder, Value


def _transfer(e: OperandEncoder, item: p.AsmInstruction, values: list[Value]) -> None:
    store = item.name in ("DST", "DSC")
    indexed = item.name in ("DGA", "DSC")
    tile_at, address_at = {
        "DLD": (2, 0),
        "DLB": (3, 0),
        "DST": (0, 1),
        "DGA": (3, 0),
        "DSC": (0, 2),
    }[item.name]
    tile = e.tile(item.operands[tile_at], item.line, tile_at)
    buffer = e.buffer(item.operands[address_at], item.line, address_at)
    dims_at, dims = next(
        (n, operand) for n, operand in enumerate(item.operands) if isinstance(operand, p.Dims)
    )
    e.same_type(tile, buffer, item.line, tile_at)
    e.fits(tile, e.rows, e.columns, item.line, dims_at)
    e.reach(buffer, values[3], dims, item.name == "DLB", item.line, dims_at)
    if store:
        e.writable(buffer, item.line, address_at)
    if indexed:
        index = e.tile(item.operands[1], item.line, 1)
        if index.type.token not in ("i64", "i32"):
            raise e.error(
                f"row indices are i64 or i32; tile {index.tile.name} is {index.type.token}",
                item.line,
                1,
            )


def _mm(e: OperandEncoder, item: p.AsmInstruction, values: list[Value]) -> None:
    a, b, c = (
        e.tile(operand, item.line, n)
        for n, operand in enumerate(item.operands)
        if not isinstance(operand, p.Dims)
    )
    if a.type is not b.type or ACCUMULATORS.get(a.type.token) != c.type.token:
        raise e.error(
            f"{item.name} does not take {a.type.token} x {b.type.token} -> {c.type.token}; "
            "it takes " + ", ".join(f"{x} -> {y}" for x, y in sorted(ACCUMULATORS.items())),
            item.line,
            0,
        )
    if c.number in (a.number, b.number) and values[2] in (values[0], values[1]):
        raise e.error("C must not be A or B", item.line, len(item.operands) - 1)


def _pair(e: OperandEncoder, item: p.AsmInstruction, values: list[Value]) -> None:
    x, y = (
        e.tile(operand, item.line, n)
        for n, operand in enumerate(item.operands)
        if not isinstance(operand, p.Dims)
    )
    last = len(item.operands) - 1
    if x.type is not y.type:
        raise e.error(
            f"{item.name} does not convert: {x.type.token} to {y.type.token}", item.line, last
        )
    if x.number == y.number and values[0] == values[1]:
        raise e.error(f"{item.name} needs two different slots", item.line, last)


def _window_copy(e: OperandEncoder, item: p.AsmInstruction, values: list[Value]) -> None:
    _pair(e, item, values)
    e.fits(e.tile(item.operands[2], item.line, 2), e.rows, e.columns, item.line, 1)


def _fold(e: OperandEncoder, item: p.AsmInstruction, values: list[Value]) -> None:
    _pair(e, item, values)
    dims, x = item.operands[1], e.tile(item.operands[0], item.line, 0)
    assert isinstance(dims, p.Dims)
    if len(dims.columns) != 2 * len(dims.rows):
        raise e.error(
            "FOLD takes twice as many dimensions right of the bar as left of it: windows, and then "
            "sizes",
            item.line,
            1,
        )
    if x.type.token not in ACCUMULATORS.values():
        raise e.error(
            f"FOLD takes {', '.join(sorted(set(ACCUMULATORS.values())))}, not {x.type.token}",
            item.line,
            0,
        )


def _scan(e: OperandEncoder, item: p.AsmInstruction, values: list[Value]) -> None:
    x, c, y = (e.tile(operand, item.line, n) for n, operand in enumerate(item.operands))
    if not item.suffixes or item.suffixes[0] == "DOWN":
        raise e.error("SCAN needs an operation: .ADD, .MUL, .MIN, .MAX or .LSE", item.line)
    if x.type is not y.type:
        raise e.error(f"SCAN does not convert: {x.type.token} to {y.type.token}", item.line, 2)
    wanted = "f64" if x.type.kind == "float" else "i64"
    if c.type.token != wanted:
        raise e.error(
            f"the carry of a scan of {x.type.token} is {wanted}, not {c.type.token}", item.line, 1
        )
    if "LSE" in item.suffixes and x.type.kind != "float":
        raise e.error(f"SCAN.LSE takes floats, not {x.type.token}", item.line, 0)
    if c.number in (x.number, y.number):
        raise e.error("the carry must not be X or Y", item.line, 1)


def _order(e: OperandEncoder, item: p.AsmInstruction, values: list[Value]) -> None:
    for n, operand in enumerate(item.operands):
        tile = e.tile(operand, item.line, n)
        if tile.type.token != "i64":
            raise e.error(
                f"{item.name} takes tiles of i64; {tile.tile.name} is {tile.type.token}",
                item.line,
                n,
            )
    if item.name == "MERGE":
        a, b, y = (e.tile(operand, item.line, n).number for n, operand in enumerate(item.operands))
        if y in (a, b) and values[2] in (values[0], values[1]):
            raise e.error("Y must not be A or B", item.line, 2)


CHECKS: dict[str, Callable[[OperandEncoder, p.AsmInstruction, list[Value]], None]] = {
    "DLD": _transfer,
    "DLB": _transfer,
    "DST": _transfer,
    "DGA": _transfer,
    "DSC": _transfer,
    "MM": _mm,
    "MMW": _mm,
    "TRANS": _pair,
    "DCP": _pair,
    "DCW": _window_copy,
    "FOLD": _fold,
    "SCAN": _scan,
    "SORT": _order,
    "MERGE": _order,
}
"""Check of each instruction; it raises AsmError. The machine checks the rest during execution."""
