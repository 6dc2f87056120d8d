"""Lowers ``ftm.sort``: rows of i64 of any length.

A row that fits into scratchpad is sorted there.  A longer one is sorted in *chunks*, then pairs of sorted *runs* are merged,
pass after pass, between the result's buffer and a workspace, until one run is left.  A pass makes its result in *blocks*;
what a block takes from each of the two runs follows from a binary search in them, so every block of a pass can
be made by any core at any time, and no tile grows with the row.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from ftm_backend.codegen.builder import TileBuilder
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.contraction_blocks import Blocks
from ftm_backend.midend.kernel import KernelView, Statement, core_share
from ftm_backend.midend.rows import largest
from ftm_backend.midend.sort_split import Split, split_runs

_ITEM = ELEMENT_BYTES["i64"]
_BLOCKS_OF_CHUNK = 4
"""Blocks that make a chunk: three tiles of a block must fit where one of a chunk does."""

_ONE_CORE_STEPS = 20_000
"""Elements times passes of a sort below which it runs on one core."""


def chunk_elements(machine: MachineParameters) -> int:
    """The longest row that is sorted in scratchpad, a power of two."""
    return 1 << (machine.am_bytes // _ITEM).bit_length() - 1


def one_core(statement: Statement, machine: MachineParameters) -> bool:
    """Whether sharing the sort among cores does not pay, or there is nothing to share."""
    rows, length = statement.loops
    if rows == 1 and length <= chunk_elements(machine):
        return True
    return rows * length * max(1, length.bit_length()) < _ONE_CORE_STEPS


def passes_of(length: int, chunk: int) -> int:
    """How often runs are merged."""
    return max(0, ceil(length / chunk) - 1).bit_length()


def workspace(kernel: KernelView) -> list[tuple[str, int]]:
    """Where runs lie between passes, and for each core the two ends of the block that it makes."""
    (statement,) = kernel.statements
    rows, length = statement.loops
    if not passes_of(length, chunk_elements(kernel.machine)):
        return []
    return [("i64", rows * length), ("i64", 2 * max(1, kernel.machine.cores))]


def lower(kernel: KernelView, b: TileBuilder) -> None:
    """Builds the kernel's function body at the insertion point."""
    (statement,) = kernel.statements
    if statement.volume:
        _Sort(kernel, statement, b).build()


class _Sort:
    """Axes 0 = rows, 1 = along them."""

    def __init__(self, kernel: KernelView, statement: Statement, b: TileBuilder) -> None:
        self.kernel, self.statement, self.b = kernel, statement, b
        self.rows, self.length = statement.loops
        self.chunk = chunk_elements(kernel.machine)
        self.passes = passes_of(self.length, self.chunk)
        (store,) = statement.results[0].stores
        elements = self.rows * self.length
        self.result = b.buffer(store.symbol, "i64", store.elements)
        if self.passes:
            run_symbol, end_symbol = kernel.workspaces
            self.between = b.buffer(run_symbol, "i64", elements)
            self.ends = b.buffer(end_symbol, "i64", 2 * max(1, kernel.machine.cores))

    def build(self) -> None:
        """Sorts chunks, then merges runs; the last pass writes the result."""
        b = self.b
        places = [self.result, self.between] if self.passes else [self.result]
        self._sort_chunks(places[self.passes % 2])
        for number in range(self.passes):
            left = self.passes - number
            if not self.kernel.one_core:
                b.barrier()
            self._merge(self.chunk << number, places[left % 2], places[(left - 1) % 2])

    def _sort_chunks(self, target: Any) -> None:
        b, source = self.b, self.statement.operands[0]
        blocks = Blocks(b, (self.rows, self.length))
        cores = 1 if self.kernel.one_core else self.kernel.machine.cores
        width = min(self.chunk, self.length)
        rows = largest((self.rows,), min(ceil(self.rows / cores), self.chunk // width))
        tile = b.tile("i64", rows.elements, width)
        pieces = ceil(self.length / width)
        with b.for_(*core_share(b, self.kernel, rows.blocks * pieces)) as number:
            places = blocks.place((0,), rows, b.div(number, pieces))
            start = b.mul(b.rem(number, pieces), width)
            places[1] = (start, width if self.length % width == 0 else b.min(width, b.sub(self.length, start)))
            blocks.load(source.value, source.index, tile, 0, places, (0,), (1,))
            b.sort(tile, 0, tile, 0)
            at = b.add(b.mul(places[0][0], self.length), start)
            b.store(tile, 0, target, at, [places[0][1], places[1][1]], [self.length, 1], 1)

    def _merge(self, run: int, source: Any, target: Any) -> None:
        """Pairs of runs of ``run`` elements, of which a row's last ones may be shorter, become one run each."""
        b, block, length = self.b, self.chunk // _BLOCKS_OF_CHUNK, self.length
        a, other, merged = (b.tile("i64", 1, block) for _ in range(3))
        low, high = b.tile("i64", 1, 2), b.tile("i64", 1, 2)
        blocks = ceil(length / block)
        core, _ = self.kernel.core(b)
        with b.for_(*core_share(b, self.kernel, self.rows * blocks)) as number:
            row = b.mul(b.div(number, blocks), length)
            at = b.mul(b.rem(number, blocks), block)
            pair = b.mul(b.div(at, 2 * run), 2 * run)
            mine = b.min(run, b.sub(length, pair))
            others = b.min(run, b.sub(b.sub(length, pair), mine))
            count = b.min(block, b.sub(length, at))
            first = b.sub(at, pair)
            first_run = b.add(row, pair)
            second_run = b.add(first_run, mine)
            split_runs(b, Split(source, self.rows * length, first_run, mine, second_run, others, first, count, run), low, high)
            b.store(low, 0, self.ends, b.mul(core, 2), [1, 2], [2, 1], 1)
            begin, end = (b.load_index(self.ends, b.add(b.mul(core, 2), k)) for k in (0, 1))
            taken = b.sub(end, begin)
            b.load(source, b.add(first_run, begin), a, 0, [1, taken], [1, 1], 1)
            b.load(source, b.add(second_run, b.sub(first, begin)), other, 0, [1, b.sub(count, taken)], [1, 1], 1)
            b.merge(a, 0, other, 0, merged, 0)
            b.store(merged, 0, target, b.add(row, at), [1, count], [length, 1], 1)
