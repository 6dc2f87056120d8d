"""Lays the tiles of a kernel out in each scratchpad, by liveness: one static plan for every kernel.

Tiles that are never alive at once may share bytes. A tile is alive from its first access to its
last; inside a loop that keeps it from one iteration to the next, it is alive as long as the loop;
so is a ring that is stored from, and, where DMA works beside the core and there is room, every tile
that is stored from: what shares its bytes would wait for its store. (Transfers still in flight from
a dead tile are `sync`'s business: it waits for them before the bytes are written again.)
"""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.codegen.errors import CodegenError
from ftm_backend.ir.tile.builder import SPACES
from ftm_backend.ir.tile.kernel_tree import (
    Block,
    TileBranch,
    TileDecl,
    TileInstruction,
    TileKernel,
    TileLoop,
)
from ftm_backend.symbolic import SymInt, at_hand, greater, never_less, never_negative
from ftm_backend.target.presets import MachineParameters

__all__ = ["LiveInterval", "fits", "live_intervals", "place", "plan"]


@dataclass(frozen=True)
class LiveInterval:
    """Positions of statements, in textual order and inclusive, between which a tile holds data."""

    first: int
    last: int

    def overlaps(self, other: LiveInterval) -> bool:
        """Whether both are alive at some point."""
        return self.first <= other.last and other.first <= self.last


_ROOM = 4
"""Sizes may become so many times what they are at hand and a ring of more slots still fits."""


def plan(kernel: TileKernel, machine: MachineParameters) -> None:
    """Sets the ``offset`` of every tile.

    Raises:
        CodegenError: when the tiles that are alive at once exceed a scratchpad.
    """
    # the roomier plan would bound the sizes that it fits for
    sized = any(isinstance(tile.bytes, SymInt) for tile in kernel.tiles)
    placed = (
        place(kernel, separate=True)
        if machine.tile_buffers > 1 and not sized
        else place(kernel, apart=True)
        if sized
        else None
    )
    if placed is None or not all(
        _within(tile.space, tile.offset + tile.bytes, machine) for tile in placed
    ):
        placed = place(kernel)
    for space in SPACES:
        tiles, capacity = (
            [tile for tile in placed if tile.space == space],
            machine.scratchpad_bytes(space),
        )
        if any(tile.offset + tile.bytes > capacity for tile in tiles):
            raise CodegenError(
                kernel.name, _explain(kernel, space, capacity, tiles, machine.name), too_large=True
            )


def fits(kernel: TileKernel, machine: MachineParameters) -> bool:
    """Whether the kernel's tiles fit, and would if sizes grew.  Writes no guard.

    Most kernels would fit if no two tiles shared a byte: of these nothing has to be placed.
    """

    if all(
        _within(space, sum(tile.bytes for tile in kernel.tiles if tile.space == space), machine)
        for space in SPACES
    ):
        return True
    ends = [(tile.space, tile.offset + tile.bytes) for tile in place(kernel)]
    for tile in kernel.tiles:
        tile.offset = -1  # until all transfers are overlapped
    return all(_within(space, end, machine) for space, end in ends)


def _within(space: str, end: int, machine: MachineParameters) -> bool:
    """Whether what ends there fits, and would if sizes grew; without a guard."""
    return at_hand(end) * (_ROOM if isinstance(end, SymInt) else 1) <= machine.scratchpad_bytes(
        space
    )


def live_intervals(kernel: TileKernel, separate: bool = False) -> dict[TileDecl, LiveInterval]:
    """When each tile that is accessed at all is alive. separate: in a loop, what is stored from is
    alive as long as the loop."""
    reader = _Liveness(separate)
    reader.block(kernel.body)
    accessed = reader.touched_by_block[id(kernel.body)]
    return {
        tile: reader.interval(kernel.body, tile, None) for tile in kernel.tiles if tile in accessed
    }


def place(kernel: TileKernel, separate: bool = False, apart: bool = False) -> list[TileDecl]:
    """Gives every tile an offset, as low as it can be; gives those that are accessed: others lie at
    0 and need no room.

    separate: as of ``live_intervals``. apart: what may end first or last, as sizes are, is as high
        as both: without a guard.
    """
    intervals = live_intervals(kernel, separate)
    found: list[TileDecl] = []
    for space in SPACES:
        placed: list[TileDecl] = []
        for tile in sorted(
            (t for t in kernel.tiles if t.space == space), key=lambda t: (-at_hand(t.bytes), t.name)
        ):
            if tile not in intervals:
                tile.offset = 0
                continue
            mine = intervals[tile]
            others = sorted(
                (t for t in placed if intervals[t].overlaps(mine)), key=lambda t: at_hand(t.offset)
            )
            tile.offset = _lowest(tile.bytes, others, apart)
            placed.append(tile)
        found += placed
    return found


def _lowest(needed: int, others: list[TileDecl], apart: bool) -> int:
    """The first offset at which ``needed`` bytes have none in common with ``others``, which are in
    order of their offsets.

    Of sizes that order is only the one at hand: an offset has to end before each of those that it
    does not come after.
    """
    offset, behind = 0, others
    while True:
        above = []
        for other in behind:
            if never_negative(other.offset - offset - needed):
                above.append(other)
            else:
                offset = (
                    _behind(offset, other) if apart else greater(offset, other.offset + other.bytes)
                )
        if len(above) == len(behind):
            return offset
        behind = above


def _behind(offset: int, other: TileDecl) -> int:
    """An offset that is neither below this one nor below the end of a tile, for all sizes; without
    a guard."""
    end = other.offset + other.bytes
    if never_less(offset, end):
        return offset
    if never_less(end, offset):
        return end
    return offset + (other.bytes if never_less(offset, other.offset) else end)


def _explain(
    kernel: TileKernel, space: str, capacity: int, tiles: list[TileDecl], machine: str
) -> str:
    end = max(tile.offset + tile.bytes for tile in tiles)
    largest = sorted(tiles, key=lambda t: -t.bytes)[:8]
    listed = "; ".join(
        f"{t.name} {t.rows}x{t.columns} {t.dtype}, depth {t.depth}: {t.bytes} bytes"
        for t in largest
    )
    more = f"; and {len(tiles) - 8} smaller ones" if len(tiles) > 8 else ""
    return (
        f"@{kernel.name} needs {end} bytes of {space.upper()} at once, machine {machine!r} has {capacity}: "
        f"tile it smaller. Its tiles: {listed}{more}"
    )


class _Liveness:
    """Numbers the statements and knows which tiles each one touches."""

    def __init__(self, separate: bool) -> None:
        self.separate = separate
        self.count = 0
        self.spans: dict[int, LiveInterval] = {}
        self.touched: dict[int, set[TileDecl]] = {}
        self.touched_by_block: dict[int, set[TileDecl]] = {}
        self.stored: set[TileDecl] = set()

    def block(self, block: Block) -> set[TileDecl]:
        tiles: set[TileDecl] = set()
        for statement in block:
            first = self.count
            self.count += 1
            if isinstance(statement, TileInstruction):
                mine = {slot.tile for slot in statement.slots()}
                if statement.kind == "store":
                    self.stored.update(slot.tile for slot in statement.reads)
            elif isinstance(statement, TileLoop):
                mine = self.block(statement.body)
            else:
                mine = self.block(statement.body) | self.block(statement.otherwise)
            self.count += 1
            self.spans[id(statement)] = LiveInterval(first, self.count - 1)
            self.touched[id(statement)] = mine
            tiles |= mine
        self.touched_by_block[id(block)] = tiles
        return tiles

    def interval(self, block: Block, tile: TileDecl, outermost: TileLoop | None) -> LiveInterval:
        """When ``tile`` is alive, given that all of its accesses are in ``block``.

        outermost: the outermost loop around ``block``.
        """
        users = [statement for statement in block if tile in self.touched[id(statement)]]
        if len(users) == 1 and not isinstance(users[0], TileInstruction):
            only = users[0]
            if isinstance(only, TileLoop):
                return self.interval(only.body, tile, outermost or only)
            bodies = [
                body
                for body in (only.body, only.otherwise)
                if tile in self.touched_by_block[id(body)]
            ]
            if len(bodies) == 1:
                return self.interval(bodies[0], tile, outermost)
        # so that nobody has to wait for its stores
        turns = (tile.depth != 1 or self.separate) and tile in self.stored
        if outermost is not None and (turns or not self.overwrites(users[0], tile)):
            return self.spans[id(outermost)]
        return LiveInterval(self.spans[id(users[0])].first, self.spans[id(users[-1])].last)

    def overwrites(
        self, statement: TileInstruction | TileLoop | TileBranch, tile: TileDecl
    ) -> bool:
        """Whether the first access of ``tile`` below ``statement`` sets it without reading it."""
        if isinstance(statement, TileInstruction):
            return all(slot.tile is not tile for slot in statement.reads)
        if isinstance(statement, TileLoop):
            first = next(inner for inner in statement.body if tile in self.touched[id(inner)])
            return self.overwrites(first, tile)
        return False
