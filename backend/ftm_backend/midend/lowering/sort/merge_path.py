"""Where a block of a merge begins and ends in the two runs that are merged: a binary search, by
maps.

The first ``d`` elements of two merged runs are the first ``i`` of one and the first ``d - i`` of
the other. ``i`` is the least number for which element ``i`` of the first run does not come before
element ``d - 1 - i`` of the second; both ends of a block are searched at once, in a tile of two
columns that a loop of maps narrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.linalg.scalar_nodes import constant
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.ir.tile.operands import BufferAddress

__all__ = ["MergeSplit", "split_runs"]


@dataclass(frozen=True)
class MergeSplit:
    """The search: in ``buffer`` of ``elements``, runs of ``mine`` at ``a`` and of ``others`` at
    ``b``.

    The block holds elements ``first`` to ``first + count`` of the merged run. ``most``: the longest
    that a run can be.
    """

    buffer: BufferAddress
    elements: int
    a: Index
    mine: Index
    b: Index
    others: Index
    first: Index
    count: Index
    most: int


def split_runs(b: TileBuilder, split: MergeSplit, low: TileDecl, high: TileDecl) -> None:
    """Leaves in ``low``, 1x2, how many elements of the first run lie before the block's first and
    behind its last."""

    def start(_: Sequence[Node]) -> list[Node]:
        place = b.position(split.first, 0, split.count)
        least = _of("maxsi", _of("subi", place, b.position(split.others, 0, 0)), _number(0))
        return [least, _of("minsi", place, b.position(split.mine, 0, 0))]

    def narrow(bounds: Sequence[Node]) -> list[Node]:
        lower, upper = bounds
        middle = _of("shrsi", _of("addi", lower, upper), _number(1))
        place = b.position(split.first, 0, split.count)
        mirror = _of("subi", _of("subi", place, _number(1)), middle)
        before = _compare("sle", _read(b, split, split.a, middle), _read(b, split, split.b, mirror))
        open_ = _compare("slt", lower, upper)
        up = _of("andi", open_, before)
        down = _of("andi", open_, _of("xori", before, constant(1, "i1")))
        after = _of("addi", middle, _number(1))
        return [_of("select", up, after, lower), _of("select", down, middle, upper)]

    outs = [(low, 0, "full"), (high, 0, "full")]
    b.map(1, 2, [], outs, start)
    with b.for_(0, split.most.bit_length()):
        b.map(1, 2, outs, outs, narrow)


def _read(b: TileBuilder, split: MergeSplit, run: Index, place: Node) -> Node:
    """Element ``place`` of a run; where a finished search reads beside the runs, any element of the
    buffer."""
    inside = _of("maxsi", place, _number(0))
    at = _of("addi", b.position(run, 0, 0), inside)
    at = _of("minsi", at, _number(split.elements - 1))
    return b.gather(split.buffer, at)


def _number(value: int) -> Node:
    return constant(value, "i64")


def _compare(predicate: str, left: Node, right: Node) -> Node:
    return Node("arith.cmpi", "i1", (left, right), {"slt": 2, "sle": 3}[predicate])


def _of(name: str, *operands: Node) -> Node:
    return Node(f"arith.{name}", operands[-1].dtype, operands)
