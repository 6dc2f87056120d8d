"""Exchange between the cores of a group in attention's backward, through memory.

Cores exchange row statistics (maximum, sum, dot) and partial sums of dQ. Buffers have room for two
steps, so one barrier per step separates writes from reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ftm_backend.ir.linalg.function import Value
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern

__all__ = ["CoreGroupSizes", "GroupExchange", "group_workspace"]


class CoreGroupSizes(NamedTuple):
    """Sizes of attention's backward with resident keys.

    Attributes:
        keys: Keys of a core's slice.
        queries: Queries of a block.
        cores: Cores of a group.
        groups: Most groups of cores.
        slots: Slots of slices; with 2, the next batch entry's slice is loaded while the first one
            is in use.
    """

    keys: int
    queries: int
    cores: int
    groups: int
    slots: int


def group_workspace(
    pattern: AttentionBackwardPattern, sizes: CoreGroupSizes
) -> list[tuple[str, int]]:
    """Return the exchange buffers as (dtype, elements): row statistics, and partial sums of dQ.

    A group of one core needs none.
    """
    slices = 2 * sizes.groups * sizes.cores * sizes.queries
    return (
        [(pattern.accumulator, slices)] * 3 + [(pattern.accumulator, slices * pattern.extents[-2])]
        if sizes.cores > 1
        else []
    )


class GroupExchange:
    """Transfers of this core, member ``member`` of group ``group``.

    Attributes:
        rows: Tiles of all members' row statistics, members x queries.
        arrived: Tile of the partial sums of the rows of dQ that this core adds up, members x
            elements.
    """

    def __init__(
        self,
        blocks: BlockTransfers,
        sizes: CoreGroupSizes,
        memory: Sequence[Value],
        acc_dtype: str,
        width: int,
    ) -> None:
        """Declare the tiles.

        Args:
            blocks: Transfers of the kernel.
            sizes: Sizes of the plan.
            memory: The buffers of ``group_workspace``.
            acc_dtype: Element type.
            width: Columns of dQ.
        """
        self.blocks, self.b, self.sizes, self.width = blocks, blocks.b, sizes, width
        *self.of_rows, self.of_parts = memory
        self.share = -(-sizes.queries // sizes.cores)
        self.rows = [self.b.tile(acc_dtype, sizes.cores, sizes.queries) for _ in self.of_rows]
        self.arrived = self.b.tile(acc_dtype, sizes.cores, self.share * width)
        self.group: Index = 0
        self.member: Index = 0

    def _at(self, step: Index, member: Index, size: int) -> Index:
        """Return the first element of a member's part, if parts have ``size`` elements."""
        b, (*_, cores, groups, _) = self.b, self.sizes
        ring = b.add(b.mul(b.rem(step, 2), groups), self.group)
        return b.mul(b.add(b.mul(ring, cores), member), size)

    def send_rows(self, step: Index, tiles: Sequence[TileDecl], rows: Index) -> None:
        """Store this core's statistics of ``rows`` rows, from slot ``step`` of the tiles."""
        start = self._at(step, self.member, self.sizes.queries)
        for value, tile in zip(self.of_rows, tiles, strict=True):
            self.b.store(tile, step, self.blocks.buffer(value), start, [1, rows], [1, 1], 1)

    def fetch_rows(self, step: Index, rows: Index) -> None:
        """Start the loads of all members' statistics."""
        start, size = self._at(step, 0, self.sizes.queries), self.sizes.queries
        for value, tile in zip(self.of_rows, self.rows, strict=True):
            self.b.load(
                self.blocks.buffer(value), start, tile, 0, [self.sizes.cores, rows], [size, 1], 1
            )

    def send_part(self, step: Index, tile: TileDecl, rows: Index) -> None:
        """Store this core's partial sum of dQ, from slot ``step`` of the tile."""
        start = self._at(step, self.member, self.sizes.queries * self.width)
        self.b.store(
            tile,
            step,
            self.blocks.buffer(self.of_parts),
            start,
            [rows, self.width],
            [self.width, 1],
            1,
        )

    def shared(self, rows: Index) -> tuple[Index, Index]:
        """Return the first row that this core adds up, and the number of such rows (maybe 0)."""
        low = self.b.mul(self.member, self.share)
        return low, self.b.max(0, self.b.min(self.share, self.b.sub(rows, low)))

    def fetch_parts(self, step: Index, rows: Index) -> None:
        """Start the load of all members' partial sums of this core's rows, of which some exist."""
        b, size = self.b, self.sizes.queries * self.width
        low, shared = self.shared(rows)
        start = b.add(self._at(step, 0, size), b.mul(low, self.width))
        b.load(
            self.blocks.buffer(self.of_parts),
            start,
            self.arrived,
            0,
            [self.sizes.cores, b.mul(shared, self.width)],
            [size, 1],
            1,
        )
