"""Where a block of a merge begins and ends in the two runs that are merged: a binary search, by maps.

The first ``d`` elements of two merged runs are the first ``i`` of one and the first ``d - i`` of the other.  ``i`` is the least
number for which element ``i`` of the first run does not come before element ``d - 1 - i`` of the second; both ends of a
block are searched at once, in a tile of two columns that a loop of maps narrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ftm_backend import dialect
from ftm_backend.codegen.builder import Index, TileBuilder
from ftm_backend.midend.bodies import constant_value
from ftm_backend.mlir import arith, ir

__all__ = ["Split", "split_runs"]


@dataclass(frozen=True)
class Split:
    """The search: in ``buffer`` of ``elements``, runs of ``mine`` at ``a`` and of ``others`` at ``b``.

    The block holds elements ``first`` to ``first + count`` of the merged run.  ``most``: the longest that a run can be.
    """

    buffer: Any
    elements: int
    a: Index
    mine: Index
    b: Index
    others: Index
    first: Index
    count: Index
    most: int


def split_runs(b: TileBuilder, split: Split, low: Any, high: Any) -> None:
    """Leaves in ``low``, 1x2, how many elements of the first run lie before the block's first and behind its last."""

    def start(_: Sequence[Any]) -> list[Any]:
        place = b.position(split.first, 0, split.count)
        least = arith.MaxSIOp(arith.SubIOp(place, b.position(split.others, 0, 0)).result, _number(0)).result
        return [least, arith.MinSIOp(place, b.position(split.mine, 0, 0)).result]

    def narrow(bounds: Sequence[Any]) -> list[Any]:
        lower, upper = bounds
        middle = arith.ShRSIOp(arith.AddIOp(lower, upper).result, _number(1)).result
        place = b.position(split.first, 0, split.count)
        mirror = arith.SubIOp(arith.SubIOp(place, _number(1)).result, middle).result
        before = _compare("sle", _read(b, split, split.a, middle), _read(b, split, split.b, mirror))
        open_ = _compare("slt", lower, upper)
        up = arith.AndIOp(open_, before).result
        down = arith.AndIOp(open_, arith.XOrIOp(before, constant_value(1, "i1")).result).result
        after = arith.AddIOp(middle, _number(1)).result
        return [arith.SelectOp(up, after, lower).result, arith.SelectOp(down, middle, upper).result]

    outs = [(low, 0, "full"), (high, 0, "full")]
    b.map(1, 2, [], outs, start)
    with b.for_(0, split.most.bit_length()):
        b.map(1, 2, outs, outs, narrow)


def _read(b: TileBuilder, split: Split, run: Index, place: Any) -> Any:
    """Element ``place`` of a run; where a finished search reads beside the runs, any element of the buffer."""
    inside = arith.MaxSIOp(place, _number(0)).result
    at = arith.AddIOp(b.position(run, 0, 0), inside).result
    at = arith.MinSIOp(at, _number(split.elements - 1)).result
    return dialect.Gather(ir.IntegerType.get_signless(64), split.buffer, at).result


def _number(value: int) -> Any:
    return constant_value(value, "i64")


def _compare(predicate: str, left: Any, right: Any) -> Any:
    number = {"slt": 2, "sle": 3}[predicate]
    return arith.CmpIOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number), left, right).result
