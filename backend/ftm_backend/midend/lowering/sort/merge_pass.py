"""A merge pass of a sort: pairs of sorted runs become one run each.

The pass produces its result in *blocks*. A binary search in both runs (``merge_path``) finds the
elements of a block. So any core can produce any block, and tiles have a fixed size.
"""

from __future__ import annotations

from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.operands import BufferAddress
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.sort.merge_path import MergeSplit, split_runs
from ftm_backend.symbolic import ceildiv

__all__ = ["merge_runs"]

_BLOCKS_OF_CHUNK = 4
"""Blocks per chunk: three tiles of a block must fit where one tile of a chunk does."""


def merge_runs(
    b: TileBuilder,
    kernel: Kernel,
    run: int,
    shape: tuple[int, int, int],
    source: BufferAddress,
    target: BufferAddress,
    ends: BufferAddress,
    chunk: int,
) -> None:
    """Merge runs of ``run`` elements into ``target``. The last runs of a row may be shorter.

    Args:
        b: The builder.
        kernel: The kernel.
        run: Elements of a run.
        shape: Rows, elements of a row, and elements of each row that go to ``target``.
        source: Dense rows of runs.
        target: Dense rows of merged runs.
        ends: Buffer with two numbers per core.
        chunk: Elements of a chunk; determines the size of blocks.
    """
    rows, length, kept = shape
    block = chunk // _BLOCKS_OF_CHUNK
    a, other, merged = (b.tile("i64", 1, block) for _ in range(3))
    low, high = b.tile("i64", 1, 2), b.tile("i64", 1, 2)
    blocks = ceildiv(kept, block)
    core, _ = kernel.core(b)
    with b.for_(*core_share(b, kernel, rows * blocks)) as number:
        row = b.div(number, blocks)
        at = b.mul(b.rem(number, blocks), block)
        pair = b.mul(b.div(at, 2 * run), 2 * run)
        first_length = b.min(run, b.sub(length, pair))
        second_length = b.min(run, b.sub(b.sub(length, pair), first_length))
        count = b.min(block, b.sub(kept, at))
        first = b.sub(at, pair)
        first_run = b.add(b.mul(row, length), pair)
        second_run = b.add(first_run, first_length)
        split_runs(
            b,
            MergeSplit(
                source,
                rows * length,
                first_run,
                first_length,
                second_run,
                second_length,
                first,
                count,
                run,
            ),
            low,
            high,
        )
        b.store(low, 0, ends, b.mul(core, 2), [1, 2], [2, 1], 1)
        begin, end = (b.load_index(ends, b.add(b.mul(core, 2), k)) for k in (0, 1))
        first_count = b.sub(end, begin)
        b.load(source, b.add(first_run, begin), a, 0, [1, first_count], [1, 1], 1)
        b.load(
            source,
            b.add(second_run, b.sub(first, begin)),
            other,
            0,
            [1, b.sub(count, first_count)],
            [1, 1],
            1,
        )
        b.merge(a, 0, other, 0, merged, 0)
        b.store(merged, 0, target, b.add(b.mul(row, kept), at), [1, count], [kept, 1], 1)
