"""Pass `allocate-scratchpad`: give each tile an offset in its scratchpad, by liveness.

Tiles whose live intervals do not overlap may share bytes. A tile is live from its first to its last
access. It is live for a whole loop

- if the loop carries its content from one iteration to the next;
- if it is a ring that is stored;
- if it is stored at all, DMA overlaps compute, and there is room: a tile that shared its bytes
  would have to wait for the store.

A transfer may still be in flight from a dead tile; ``insert_waits`` waits for it before the bytes
are written again.

Changes the tiles' offsets.
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
from ftm_backend.symbolic import (
    SymInt,
    size_hint,
    statically_known_ge,
    statically_known_nonnegative,
    sym_max,
)
from ftm_backend.target.presets import MachineParameters


@dataclass(frozen=True)
class LiveInterval:
    """Positions of statements, inclusive and in textual order, between which a tile is live."""

    first: int
    last: int

    def overlaps(self, other: LiveInterval) -> bool:
        """Whether both are live at some position."""
        return self.first <= other.last and other.first <= self.last


_ROOM = 4
"""A deeper ring must still fit if symbolic sizes grow by this factor over the sizes seen."""


def plan(kernel: TileKernel, machine: MachineParameters) -> None:
    """Set the ``offset`` of every tile.

    Raises:
        CodegenError: The tiles that are live at once exceed a scratchpad.
    """
    # Checking that the roomier plan fits would add a guard on symbolic sizes.
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
    """Whether the kernel's tiles fit, also if symbolic sizes grow. Adds no guard.

    Most kernels fit even if no two tiles share a byte, so nothing has to be placed for them.
    """
    if all(
        _within(space, sum(tile.bytes for tile in kernel.tiles if tile.space == space), machine)
        for space in SPACES
    ):
        return True
    ends = [(tile.space, tile.offset + tile.bytes) for tile in place(kernel)]
    for tile in kernel.tiles:
        tile.offset = -1  # placed for good once all transfers are overlapped
    return all(_within(space, end, machine) for space, end in ends)


def _within(space: str, end: int, machine: MachineParameters) -> bool:
    """Whether a scratchpad holds ``end`` bytes, also if symbolic sizes grow. Adds no guard."""
    growth = _ROOM if isinstance(end, SymInt) else 1
    return size_hint(end) * growth <= machine.scratchpad_bytes(space)


def live_intervals(kernel: TileKernel, separate: bool = False) -> dict[TileDecl, LiveInterval]:
    """Return the live interval of each tile that is accessed.

    With ``separate``, a tile that a loop stores is live for the whole loop.
    """
    reader = _Liveness(separate)
    reader.block(kernel.body)
    accessed = reader.touched_by_block[id(kernel.body)]
    return {
        tile: reader.interval(kernel.body, tile, None) for tile in kernel.tiles if tile in accessed
    }


def place(kernel: TileKernel, separate: bool = False, apart: bool = False) -> list[TileDecl]:
    """Give every tile the lowest offset that is free.

    Args:
        kernel: The kernel.
        separate: See `live_intervals`.
        apart: Compare symbolic offsets without guards, at the cost of space.

    Returns:
        The tiles that are accessed. Others get offset 0 and need no room.
    """
    intervals = live_intervals(kernel, separate)
    found: list[TileDecl] = []
    for space in SPACES:
        placed: list[TileDecl] = []
        for tile in sorted(
            (t for t in kernel.tiles if t.space == space),
            key=lambda t: (-size_hint(t.bytes), t.name),
        ):
            if tile not in intervals:
                tile.offset = 0
                continue
            mine = intervals[tile]
            others = sorted(
                (t for t in placed if intervals[t].overlaps(mine)),
                key=lambda t: size_hint(t.offset),
            )
            tile.offset = _lowest(tile.bytes, others, apart)
            placed.append(tile)
        found += placed
    return found


def _lowest(needed: int, others: list[TileDecl], apart: bool) -> int:
    """Return the first offset at which ``needed`` bytes do not overlap ``others``.

    ``others`` are sorted by their offsets. For symbolic sizes that is only the order at the sizes
    seen, so an offset must end before every tile that it is not placed behind.
    """
    offset, behind = 0, others
    while True:
        above = []
        for other in behind:
            if statically_known_nonnegative(other.offset - offset - needed):
                above.append(other)
            else:
                offset = (
                    _behind(offset, other) if apart else sym_max(offset, other.offset + other.bytes)
                )
        if len(above) == len(behind):
            return offset
        behind = above


def _behind(offset: int, other: TileDecl) -> int:
    """Return an offset that is at least ``offset`` and ``other``'s end for all sizes. No guard."""
    end = other.offset + other.bytes
    if statically_known_ge(offset, end):
        return offset
    if statically_known_ge(end, offset):
        return end
    return offset + (other.bytes if statically_known_ge(offset, other.offset) else end)


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
        f"@{kernel.name} needs {end} bytes of {space.upper()} at once, machine {machine!r} has "
        f"{capacity}: tile it smaller. Its tiles: {listed}{more}"
    )


class _Liveness:
    """Numbers the statements and records which tiles each one accesses."""

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
        """Return the live interval of ``tile``, all of whose accesses are in ``block``.

        ``outermost`` is the outermost loop around ``block``.
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
        # A tile that shared its bytes within the loop would have to wait for the stores.
        is_stored = (tile.depth != 1 or self.separate) and tile in self.stored
        if outermost is not None and (is_stored or not self.overwrites(users[0], tile)):
            return self.spans[id(outermost)]
        return LiveInterval(self.spans[id(users[0])].first, self.spans[id(users[-1])].last)

    def overwrites(
        self, statement: TileInstruction | TileLoop | TileBranch, tile: TileDecl
    ) -> bool:
        """Whether the first access of ``tile`` below ``statement`` writes it without reading."""
        if isinstance(statement, TileInstruction):
            return all(slot.tile is not tile for slot in statement.reads)
        if isinstance(statement, TileLoop):
            first = next(inner for inner in statement.body if tile in self.touched[id(inner)])
            return self.overwrites(first, tile)
        return False
