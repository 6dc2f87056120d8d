"""What the cores of a team tell each other about attention's gradients, through memory: numbers of
rows, parts of the gradient of queries.

There is room for two steps of each, so that one barrier a step keeps what is written apart from
what is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ftm_backend.ir.linalg.function import Value
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern

__all__ = ["TeamExchange", "TeamSizes", "team_workspace"]


class TeamSizes(NamedTuple):
    """Keys of a slice and queries of a block; cores of a team and the most teams that there are;
    ``slots`` for slices: a second one takes that of the next batch entry while the first is in
    use."""

    keys: int
    queries: int
    cores: int
    teams: int
    slots: int


def team_workspace(form: AttentionBackwardPattern, sizes: TeamSizes) -> list[tuple[str, int]]:
    """What is exchanged, type and elements: three numbers of each row, and the parts; nothing in a
    team of one."""
    slices = 2 * sizes.teams * sizes.cores * sizes.queries
    return (
        [(form.accumulator, slices)] * 3 + [(form.accumulator, slices * form.extents[-2])]
        if sizes.cores > 1
        else []
    )


class TeamExchange:
    """Transfers of this core, member ``member`` of team ``team``.

    memory: as `team_workspace` says. rows: tiles for what all members know of rows, members x
    queries; arrived: for their parts of the share of rows that this core adds up, a row for each
    member.
    """

    def __init__(
        self,
        blocks: BlockTransfers,
        sizes: TeamSizes,
        memory: Sequence[Value],
        kind: str,
        width: int,
    ) -> None:
        self.blocks, self.b, self.sizes, self.width = blocks, blocks.b, sizes, width
        *self.of_rows, self.of_parts = memory
        self.share = -(-sizes.queries // sizes.cores)
        self.rows = [self.b.tile(kind, sizes.cores, sizes.queries) for _ in self.of_rows]
        self.arrived = self.b.tile(kind, sizes.cores, self.share * width)
        self.team: Index = 0
        self.member: Index = 0

    def _at(self, step: Index, member: Index, size: int) -> Index:
        """Where a member's part of ``size`` elements begins."""
        b, (*_, cores, teams, _) = self.b, self.sizes
        ring = b.add(b.mul(b.rem(step, 2), teams), self.team)
        return b.mul(b.add(b.mul(ring, cores), member), size)

    def send_rows(self, step: Index, tiles: Sequence[TileDecl], rows: Index) -> None:
        """Stores what this core knows of ``rows`` rows: slot ``step`` of the tiles."""
        start = self._at(step, self.member, self.sizes.queries)
        for value, tile in zip(self.of_rows, tiles, strict=True):
            self.b.store(tile, step, self.blocks.buffer(value), start, [1, rows], [1, 1], 1)

    def fetch_rows(self, step: Index, rows: Index) -> None:
        """Starts the transfers of what all members know."""
        start, size = self._at(step, 0, self.sizes.queries), self.sizes.queries
        for value, tile in zip(self.of_rows, self.rows, strict=True):
            self.b.load(
                self.blocks.buffer(value), start, tile, 0, [self.sizes.cores, rows], [size, 1], 1
            )

    def send_part(self, step: Index, tile: TileDecl, rows: Index) -> None:
        """Stores this core's part: slot ``step`` of the tile."""
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
        """The first of the rows whose parts this core adds up, and how many there are; maybe
        none."""
        low = self.b.mul(self.member, self.share)
        return low, self.b.max(0, self.b.min(self.share, self.b.sub(rows, low)))

    def fetch_parts(self, step: Index, rows: Index) -> None:
        """Starts the transfer of all members' parts of this core's share of ``rows``, of which
        there are some."""
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
