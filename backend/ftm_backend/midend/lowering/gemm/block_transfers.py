"""Transfers of tensor blocks between memory and tiles, and elementwise bodies on tiles.

The lowerings of contractions and of row kernels share this module. A kernel's axes are in groups; a
tile covers a block of a row group and of a column group (see ``TileCut``). *Places* give the
position of a block: for each axis its first index and its extent.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TypedDict

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.affine import volume as elements_of
from ftm_backend.ir.linalg.function import Node, Operand, Store, Value
from ftm_backend.ir.tile.builder import Index, PaddedDim, TileBuilder
from ftm_backend.ir.tile.index_expr import Expr
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.ir.tile.operands import BufferAddress
from ftm_backend.midend.lowering.map_bodies import mapped
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut
from ftm_backend.symbolic import ceildiv, divides, guarded_equal

__all__ = ["BlockTransfers", "Slices", "TileBody", "broadcast_mode", "nodes_above", "sides"]

Slices = dict[int, tuple[Index, Index]]
"""For each axis, the first index and the extent of a block."""

Group = Sequence[int]
"""Axes, outermost first."""


class Transfer(TypedDict):
    """The part of a tensor that a transfer moves; see `TileBuilder.load`."""

    offset: Index
    row_dims: int
    extents: list[Index]
    strides: list[int]


class BlockTransfers:
    """Addresses and transfers of blocks, over axes with the given extents."""

    def __init__(self, b: TileBuilder, extents: Sequence[int]) -> None:
        """Set the builder and the extents of all axes."""
        self.b, self.extents = b, extents

    def index_slices(self, group: Group, number: Index) -> Slices:
        """Return index ``number`` of the row-major order of ``group``, with extents of 1."""
        b = self.b
        slices: Slices = {}
        for position in range(len(group) - 1, -1, -1):
            extent = self.extents[group[position]]
            slices[group[position]] = (number if position == 0 else b.rem(number, extent), 1)
            number = b.div(number, extent)
        return slices

    def block_slices(self, group: Group, cut: TileCut, block: Index) -> Slices:
        """Return the position of block number ``block`` of a group."""
        if not group:
            return {}
        b, axis = self.b, group[cut.dim]
        extent = self.extents[axis]
        pieces = ceildiv(extent, cut.size)
        outside, piece = (b.div(block, pieces), b.rem(block, pieces)) if cut.dim else (0, block)
        start = b.mul(piece, cut.size)
        count = cut.size if divides(cut.size, extent) else b.min(cut.size, b.sub(extent, start))
        slices = self.index_slices(group[: cut.dim], outside)
        slices[axis] = (start, count)
        for inside in group[cut.dim + 1 :]:
            slices[inside] = (0, self.extents[inside])
        return slices

    def address(self, access: Affine, slices: Slices) -> Index:
        """Return the flat element index of the first element of the block at ``slices``."""
        at: Index = access.const
        for axis, (start, _) in slices.items():
            at = self.b.add(at, self.b.mul(start, access.coeffs[axis]))
        return at

    def count(self, group: Group, slices: Slices) -> Index:
        """Return the number of elements of a group in the block."""
        total: Index = 1
        for axis in group:
            total = self.b.mul(total, slices[axis][1])
        return total

    def _dims(self, access: Affine, group: Group, slices: Slices) -> list[tuple[Index, int]]:
        """Return extents and strides of one side of a block, with contiguous neighbours merged."""
        dims: list[tuple[Index, int]] = []
        for axis in group:
            extent, stride = slices[axis][1], access.coeffs[axis]
            if not isinstance(extent, Expr) and guarded_equal(extent, 1):
                continue
            if (
                dims
                and not isinstance(extent, Expr)
                and guarded_equal(dims[-1][1], stride * extent)
            ):
                dims[-1] = (self.b.mul(dims[-1][0], extent), stride)
            else:
                dims.append((extent, stride))
        return dims or [(1, 1)]

    def block(self, access: Affine, slices: Slices, rows: Group, columns: Group) -> Transfer:
        """Return the offset, extents, strides and number of row dimensions of a transfer."""
        row_dims = self._dims(access, rows, slices)
        column_dims = self._dims(access, columns, slices)
        return {
            "offset": self.address(access, slices),
            "row_dims": len(row_dims),
            "extents": [extent for extent, _ in row_dims + column_dims],
            "strides": [stride for _, stride in row_dims + column_dims],
        }

    def buffer(self, value: Value) -> BufferAddress:
        """Return the DDR buffer of ``value``, or of its interior if it has a border.

        Raises:
            ValueError: It has no buffer, because it is computed inside the kernel.
        """
        value = value.in_memory
        if value.symbol is None:
            raise ValueError(
                f"a {value.dtype} tensor of shape {value.shape} is read from DDR but has no buffer"
            )
        return self.b.buffer(value.symbol, value.dtype, elements_of(value.shape))

    def load(
        self,
        value: Value,
        access: Affine,
        tile: TileDecl,
        slot: Index,
        slices: Slices,
        rows: Group,
        columns: Group,
    ) -> None:
        """Load the block of a DDR tensor at ``slices`` into a tile by DMA."""
        self.b.load(
            self.buffer(value),
            tile=tile,
            slot=slot,
            border=sides(value),
            **self.block(access, slices, rows, columns),
        )

    def store(
        self,
        tile: TileDecl,
        slot: Index,
        dtype: str,
        store: Store,
        access: Affine,
        slices: Slices,
        rows: Group,
        columns: Group,
    ) -> None:
        """Store a tile as the block at ``slices`` by DMA.

        ``access`` is the index of ``store`` as a function of the axes.
        """
        buffer = self.b.buffer(store.symbol, dtype, store.elements)
        self.b.store(tile, slot, buffer, **self.block(access, slices, rows, columns))


def sides(value: Value) -> list[PaddedDim]:
    """Return the padded dimensions of ``value`` and those inside them; none without a border."""
    border = value.border
    if border is None:
        return []
    every = [PaddedDim(*side) for side in zip(border.sizes, border.low, value.shape, strict=True)]
    first = next(k for k, side in enumerate(every) if side.inside != side.whole)
    return every[first:]


def broadcast_mode(down: bool, along: bool) -> str:
    """Return how a map reads a tile whose values depend on the row, and on the column."""
    if down:
        return "full" if along else "col"
    return "row" if along else "one"


def nodes_above(nodes: Iterable[Node], leaves: Container[int]) -> list[Node]:
    """Return ``nodes`` and all nodes that they depend on.

    The search stops at nodes whose ``id`` is in ``leaves``.
    """
    found: dict[int, Node] = {}
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack += () if id(node) in leaves else node.operands
    return list(found.values())


class TileBody:
    """An elementwise body on tiles of a row and a column group: load, map, store."""

    def __init__(
        self,
        blocks: BlockTransfers,
        rows: Group,
        columns: Group,
        max_extents: tuple[int, int],
        operands: Sequence[Operand],
        outputs: Sequence[tuple[Node, Sequence[Store]]],
        access: Callable[[Affine], Affine],
        given: Mapping[int, TileDecl],
        ahead: int = 1,
        slots: int = 1,
    ) -> None:
        """Declare the tiles of the body.

        Args:
            blocks: Transfers of the kernel.
            rows: Axes of a tile's rows.
            columns: Axes of a tile's columns.
            max_extents: Extents of the largest tile.
            operands: DDR tensors that the body loads.
            outputs: Elements and their stores. ``tiles`` holds those that the body computes.
            access: Maps an index of an operand, store or index node to the axes.
            given: Tiles that already hold the values of some nodes, by the node's id.
            ahead: Slots of loaded tiles.
            slots: Slots of computed tiles.
        """
        self.blocks = blocks
        self.rows = rows
        self.columns = columns
        self.access = access
        self.given = dict(given)
        b = blocks.b
        self.outputs = outputs
        self.computed: dict[int, Node] = {
            id(node): node for node, _ in outputs if id(node) not in self.given
        }
        inside = nodes_above(self.computed.values(), self.given)
        self.used = {id(node) for node in inside}
        self.positions = list(dict.fromkeys(node.payload for node in inside if node.op == "index"))
        self.reads: list[tuple[Operand, str, TileDecl]] = []
        for operand in operands:
            down, along = self._varies(access(operand.index))
            sides = max_extents[0] if down else 1, max_extents[1] if along else 1
            tile = b.tile(operand.value.dtype, *sides, "am", ahead)
            self.reads.append((operand, broadcast_mode(down, along), tile))
        self.tiles = {
            key: b.tile(node.dtype, *max_extents, "am", slots)
            for key, node in self.computed.items()
        }
        self.after_store: Callable[[Slices, TileDecl, Index], None] | None = None
        """Called with each output's block, tile and slot after its stores have been issued."""

    def _varies(self, index: Affine) -> tuple[bool, bool]:
        """Return whether an access depends on the row, and on the column."""
        down = any(index.coeffs[axis] for axis in self.rows)
        return down, any(index.coeffs[axis] for axis in self.columns)

    def build(self, slices: Slices, slot: Index = 0) -> None:
        """Emit load, map and store for the tile at ``slices``; ``slot``: of the given tiles."""
        self.fetch(slices)
        self.finish(slices, slot)

    def fetch(self, slices: Slices, read: Index = 0) -> None:
        """Start the loads for the tile at ``slices`` into slots ``read``."""
        for operand, broadcast, tile in self.reads:
            rows = self.rows if broadcast in ("full", "col") else ()
            columns = self.columns if broadcast in ("full", "row") else ()
            self.blocks.load(
                operand.value, self.access(operand.index), tile, read, slices, rows, columns
            )

    def finish(self, slices: Slices, slot: Index = 0, own: Index = 0, read: Index = 0) -> None:
        """Emit the map of the loads in slots ``read``, and the stores from slots ``own``."""
        if self.computed:
            self._map(slices, slot, own, read)
        for node, stores in self.outputs:
            tile, at = (
                (self.given[id(node)], slot)
                if id(node) in self.given
                else (self.tiles[id(node)], own)
            )
            for store in stores:
                access = self.access(store.index)
                self.blocks.store(
                    tile, at, node.dtype, store, access, slices, self.rows, self.columns
                )
            if self.after_store is not None:
                self.after_store(slices, tile, at)

    def _map(self, slices: Slices, slot: Index, own: Index, read: Index) -> None:
        b = self.blocks.b
        given = [key for key in self.given if key in self.used]
        ins = [(self.given[key], slot, "full") for key in given] + [
            (tile, read, broadcast) for _, broadcast, tile in self.reads
        ]
        # Address computations are scalar instructions, so they must precede the map.
        starts = {
            index: self.blocks.address(self.access(index), slices) for index in self.positions
        }

        def body(arguments: Sequence[Node]) -> list[Node]:
            held = dict(zip(given, arguments, strict=False))
            loaded = arguments[len(given) :]
            read = {
                (id(o.value), o.index): value
                for (o, *_), value in zip(self.reads, loaded, strict=True)
            }

            def leaf(node: Node) -> Node | None:
                if id(node) in held:
                    return held[id(node)]
                if node.op == "in":
                    return read[id(node.payload.value), node.payload.index]
                if node.op == "index":
                    return self._position(self.access(node.payload), starts[node.payload])
                return None

            return mapped(b, list(self.computed.values()), leaf)

        rows = self.blocks.count(self.rows, slices)
        columns = self.blocks.count(self.columns, slices)
        b.map(rows, columns, ins, [(tile, own, "full") for tile in self.tiles.values()], body)

    def _position(self, index: Affine, start: Index) -> Node:
        """Return ``index`` inside the map.

        Each side of the tile has a single axis with an extent above 1, or axes that merge.
        """
        index_slices = [
            index.coeffs[group[-1]] if group else 0 for group in (self.rows, self.columns)
        ]
        return self.blocks.b.position(start, *index_slices)
