"""Merge path: binary search for the part of each run that a block of the merged run consists of.

The first ``d`` elements of the merged run are the first ``i`` of one run and the first ``d - i`` of
the other. ``i`` is the least number such that element ``i`` of the first run does not precede
element ``d - 1 - i`` of the second. Both ends of a block are searched at once, in a tile of two
columns that a loop of maps narrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.ir.tile.operands import BufferAddress

__all__ = ["MergeSplit", "split_runs"]


@dataclass(frozen=True)
class MergeSplit:
    """A search for elements ``first`` to ``first + count`` of the merged run.

    Attributes:
        buffer: Buffer of both runs.
        elements: Its elements.
        a: Start of the first run.
        first_length: Length of the first run.
        b: Start of the second run.
        second_length: Length of the second run.
        first: First element of the block.
        count: Elements of the block.
        most: Longest possible run.
    """

    buffer: BufferAddress
    elements: int
    a: Index
    first_length: Index
    b: Index
    second_length: Index
    first: Index
    count: Index
    most: int


def split_runs(b: TileBuilder, split: MergeSplit, low: TileDecl, high: TileDecl) -> None:
    """Compute, into ``low`` (1x2), the elements of the first run before the block's both ends."""

    def start(_: Sequence[Node]) -> list[Node]:
        index = b.position(split.first, 0, split.count)
        least = _of("maxsi", _of("subi", index, b.position(split.second_length, 0, 0)), _number(0))
        return [least, _of("minsi", index, b.position(split.first_length, 0, 0))]

    def narrow(bounds: Sequence[Node]) -> list[Node]:
        lower, upper = bounds
        middle = _of("shrsi", _of("addi", lower, upper), _number(1))
        index = b.position(split.first, 0, split.count)
        other_index = _of("subi", _of("subi", index, _number(1)), middle)
        before = _compare(
            "sle", _read(b, split, split.a, middle), _read(b, split, split.b, other_index)
        )
        is_open = _compare("slt", lower, upper)
        up = _of("andi", is_open, before)
        down = _of("andi", is_open, _of("xori", before, constant(1, "i1")))
        after = _of("addi", middle, _number(1))
        return [_of("select", up, after, lower), _of("select", down, middle, upper)]

    outs = [(low, 0, "full"), (high, 0, "full")]
    b.map(1, 2, [], outs, start)
    with b.for_(0, split.most.bit_length()):
        b.map(1, 2, outs, outs, narrow)


def _read(b: TileBuilder, split: MergeSplit, run: Index, index: Node) -> Node:
    """Return element ``index`` of a run; any element of the buffer if it is outside of the run.

    The latter happens only after a search has ended.
    """
    inside = _of("maxsi", index, _number(0))
    at = _of("addi", b.position(run, 0, 0), inside)
    at = _of("minsi", at, _number(split.elements - 1))
    return b.gather(split.buffer, at)


def _number(value: int) -> Node:
    return constant(value, "i64")


def _compare(predicate: str, left: Node, right: Node) -> Node:
    return Node("arith.cmpi", "i1", (left, right), {"slt": 2, "sle": 3}[predicate])


def _of(name: str, *operands: Node) -> Node:
    return Node(f"arith.{name}", operands[-1].dtype, operands)
