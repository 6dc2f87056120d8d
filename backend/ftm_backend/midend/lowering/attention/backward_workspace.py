"""What attention's backward keeps in memory: row statistics and partial sums of dQ.

Two mechanisms use such buffers:

- The cores of a group exchange them (`GroupExchange`). There is room for two steps, so one barrier
  per step separates writes from reads.
- If a core holds the keys of a batch entry one slice after the other, both wait there for its next
  slice. There is room for all blocks of queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ftm_backend.ir.linalg.function import Value
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern

__all__ = ["BackwardSizes", "GroupExchange", "QueryBuffers", "exchange_buffers", "round_buffers"]


class BackwardSizes(NamedTuple):
    """Sizes of attention's backward.

    Attributes:
        keys: Keys of a slice; ``cores * rounds`` slices cover a batch entry.
        queries: Queries of a block.
        cores: Cores of a group.
        groups: Most groups of cores.
        rounds: Slices that a core holds one after the other.
        slots: Slots of slices; with 2, the next slice is loaded while the first one is in use.
    """

    keys: int
    queries: int
    cores: int
    groups: int
    rounds: int
    slots: int

    def one_core(self) -> BackwardSizes:
        """Return the same slices for a single core."""
        return self._replace(cores=1, groups=1, rounds=self.cores * self.rounds)


Buffers = list[tuple[str, int]]
"""DDR buffers as (dtype, elements)."""


def exchange_buffers(pattern: AttentionBackwardPattern, sizes: BackwardSizes) -> Buffers:
    """Return the buffers of the exchange; a group of one core needs none."""
    return _buffers(pattern, sizes, 2) if sizes.cores > 1 else []


def round_buffers(pattern: AttentionBackwardPattern, sizes: BackwardSizes) -> Buffers:
    """Return the buffers of what waits for the next slice.

    A single round needs none, and a single block of queries stays in its tiles.
    """
    blocks = -(-pattern.extents[-4] // sizes.queries)
    return _buffers(pattern, sizes, blocks) if sizes.rounds > 1 and blocks > 1 else []


def _buffers(pattern: AttentionBackwardPattern, sizes: BackwardSizes, slots: int) -> Buffers:
    """Return three buffers of row statistics, and one of partial sums of dQ."""
    rows = slots * sizes.groups * sizes.cores * sizes.queries
    acc_dtype = pattern.accumulator
    return [(acc_dtype, rows)] * 3 + [(acc_dtype, rows * pattern.extents[-2])]


class QueryBuffers:
    """Transfers of blocks of queries between tiles and the buffers of this core's group.

    Attributes:
        group: Number of the group.
    """

    def __init__(
        self, blocks: BlockTransfers, sizes: BackwardSizes, memory: Sequence[Value], width: int
    ) -> None:
        """Set the buffers, in the order of `exchange_buffers`; ``width``: columns of dQ."""
        self.blocks, self.b, self.sizes, self.width = blocks, blocks.b, sizes, width
        *self.of_rows, self.of_sums = memory
        self.group: Index = 0

    def at(self, slot: Index, member: Index, size: int) -> Index:
        """Return the first element of a member's part, if parts have ``size`` elements."""
        b = self.b
        group = b.add(b.mul(slot, self.sizes.groups), self.group)
        return b.mul(b.add(b.mul(group, self.sizes.cores), member), size)

    def store_rows(
        self, slot: Index, member: Index, tiles: Sequence[TileDecl], number: Index, rows: Index
    ) -> None:
        """Store statistics of ``rows`` rows from slot ``number`` of the tiles."""
        start = self.at(slot, member, self.sizes.queries)
        for value, tile in zip(self.of_rows, tiles, strict=True):
            self.b.store(tile, number, self.blocks.buffer(value), start, [1, rows], [1, 1], 1)

    def load_rows(
        self,
        slot: Index,
        member: Index,
        tiles: Sequence[TileDecl],
        number: Index,
        rows: Index,
        members: int = 1,
    ) -> None:
        """Start the loads of the statistics of ``members`` cores, from ``member`` on."""
        size = self.sizes.queries
        start = self.at(slot, member, size)
        for value, tile in zip(self.of_rows, tiles, strict=True):
            self.b.load(
                self.blocks.buffer(value), start, tile, number, [members, rows], [size, 1], 1
            )

    def store_sums(
        self, slot: Index, member: Index, tile: TileDecl, number: Index, rows: Index
    ) -> None:
        """Store partial sums of dQ."""
        start = self.at(slot, member, self.sizes.queries * self.width)
        extents, strides = [rows, self.width], [self.width, 1]
        self.b.store(tile, number, self.blocks.buffer(self.of_sums), start, extents, strides, 1)

    def load_sums(
        self, slot: Index, member: Index, tile: TileDecl, number: Index, rows: Index
    ) -> None:
        """Start the load of partial sums of dQ."""
        start = self.at(slot, member, self.sizes.queries * self.width)
        extents, strides = [rows, self.width], [self.width, 1]
        self.b.load(self.blocks.buffer(self.of_sums), start, tile, number, extents, strides, 1)


class GroupExchange:
    """Exchange between the cores of a group; this core is number ``member``.

    Attributes:
        buffers: The buffers of both steps.
        rows: Tiles of all members' row statistics, members x queries.
        arrived: Tile of the partial sums of the rows of dQ that this core adds up, members x
            elements.
    """

    def __init__(
        self,
        blocks: BlockTransfers,
        sizes: BackwardSizes,
        memory: Sequence[Value],
        acc_dtype: str,
        width: int,
    ) -> None:
        """Declare the tiles.

        Args:
            blocks: Transfers of the kernel.
            sizes: Sizes of the plan.
            memory: The buffers of ``exchange_buffers``.
            acc_dtype: Element type.
            width: Columns of dQ.
        """
        self.b, self.sizes, self.width = blocks.b, sizes, width
        self.buffers = QueryBuffers(blocks, sizes, memory, width)
        self.share = -(-sizes.queries // sizes.cores)
        self.rows = [self.b.tile(acc_dtype, sizes.cores, sizes.queries) for _ in range(3)]
        self.arrived = self.b.tile(acc_dtype, sizes.cores, self.share * width)
        self.member: Index = 0

    def send_rows(self, step: Index, tiles: Sequence[TileDecl], rows: Index) -> None:
        """Store this core's statistics of ``rows`` rows, from slot ``step`` of the tiles."""
        self.buffers.store_rows(self.b.rem(step, 2), self.member, tiles, step, rows)

    def fetch_rows(self, step: Index, rows: Index) -> None:
        """Start the loads of all members' statistics."""
        self.buffers.load_rows(self.b.rem(step, 2), 0, self.rows, 0, rows, self.sizes.cores)

    def send_sums(self, step: Index, tile: TileDecl, rows: Index) -> None:
        """Store this core's partial sum of dQ, from slot ``step`` of the tile."""
        self.buffers.store_sums(self.b.rem(step, 2), self.member, tile, step, rows)

    def shared(self, rows: Index) -> tuple[Index, Index]:
        """Return the first row that this core adds up, and the number of such rows (maybe 0)."""
        low = self.b.mul(self.member, self.share)
        return low, self.b.max(0, self.b.min(self.share, self.b.sub(rows, low)))

    def fetch_sums(self, step: Index, rows: Index) -> None:
        """Start the load of all members' partial sums of this core's rows, if it has some."""
        b, size = self.b, self.sizes.queries * self.width
        low, shared = self.shared(rows)
        start = b.add(self.buffers.at(b.rem(step, 2), 0, size), b.mul(low, self.width))
        buffer = self.buffers.blocks.buffer(self.buffers.of_sums)
        with b.where(("lt", 0, shared)):
            extents = [self.sizes.cores, b.mul(shared, self.width)]
            b.load(buffer, start, self.arrived, 0, extents, [size, 1], 1)
