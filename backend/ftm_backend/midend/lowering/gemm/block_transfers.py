"""Blocks of tensors, and bodies on tiles: what the lowerings of contractions and of row kernels
share.

A kernel's axes are sorted into groups; a tile covers a block of a row group and of a column group
(see ``tiling.Cut``). *Places* say where a block lies: for each axis its start and how many steps it
takes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.affine import volume as elements_of
from ftm_backend.ir.linalg.function import Node, Operand, Store, Value
from ftm_backend.ir.tile.builder import Index, PaddedAddress, TileBuilder
from ftm_backend.ir.tile.index_expr import Expr
from ftm_backend.midend.lowering.map_bodies import mapped
from ftm_backend.midend.schedule.gemm.tiling import TileCut
from ftm_backend.symbolic import ceildiv, divides, seen_equal

__all__ = ["BlockTransfers", "Places", "TileBody", "nodes_above", "sides"]

Places = dict[int, tuple[Index, Index]]
"""For each axis where a block starts and how many steps it takes."""

Group = Sequence[int]
"""Axes, outermost first."""


class BlockTransfers:
    """Addresses of blocks, over axes of the given extents."""

    def __init__(self, b: TileBuilder, extents: Sequence[int]) -> None:
        self.b, self.extents = b, extents

    def steps(self, group: Group, number: Index) -> Places:
        """Step ``number`` of the axes of ``group`` walked in row-major order."""
        b = self.b
        places: Places = {}
        for position in range(len(group) - 1, -1, -1):
            extent = self.extents[group[position]]
            places[group[position]] = (number if position == 0 else b.rem(number, extent), 1)
            number = b.div(number, extent)
        return places

    def place(self, group: Group, cut: TileCut, block: Index) -> Places:
        """Where block number ``block`` of a group lies."""
        if not group:
            return {}
        b, axis = self.b, group[cut.dim]
        extent = self.extents[axis]
        pieces = ceildiv(extent, cut.size)
        outside, piece = (b.div(block, pieces), b.rem(block, pieces)) if cut.dim else (0, block)
        start = b.mul(piece, cut.size)
        count = cut.size if divides(cut.size, extent) else b.min(cut.size, b.sub(extent, start))
        places = self.steps(group[: cut.dim], outside)
        places[axis] = (start, count)
        for inside in group[cut.dim + 1 :]:
            places[inside] = (0, self.extents[inside])
        return places

    def address(self, access: Affine, places: Places) -> Index:
        """Flat element at which the block of ``access`` at ``places`` starts."""
        at: Index = access.const
        for axis, (start, _) in places.items():
            at = self.b.add(at, self.b.mul(start, access.coeffs[axis]))
        return at

    def count(self, group: Group, places: Places) -> Index:
        """How many elements of a group the block takes."""
        total: Index = 1
        for axis in group:
            total = self.b.mul(total, places[axis][1])
        return total

    def _dims(self, access: Affine, group: Group, places: Places) -> list[tuple[Index, int]]:
        """Extents and strides of one side of a block; neighbours that lie as one are merged."""
        dims: list[tuple[Index, int]] = []
        for axis in group:
            extent, stride = places[axis][1], access.coeffs[axis]
            if not isinstance(extent, Expr) and seen_equal(extent, 1):
                continue
            if dims and not isinstance(extent, Expr) and seen_equal(dims[-1][1], stride * extent):
                dims[-1] = (self.b.mul(dims[-1][0], extent), stride)
            else:
                dims.append((extent, stride))
        return dims or [(1, 1)]

    def block(self, access: Affine, places: Places, rows: Group, columns: Group) -> dict[str, Any]:
        """Offset, extents, strides and row dimensions of a transfer."""
        row_dims, column_dims = (
            self._dims(access, rows, places),
            self._dims(access, columns, places),
        )
        return {
            "offset": self.address(access, places),
            "row_dims": len(row_dims),
            "extents": [extent for extent, _ in row_dims + column_dims],
            "strides": [stride for _, stride in row_dims + column_dims],
        }

    def buffer(self, value: Value) -> Any:
        """The DDR buffer that holds ``value``, or what is inside its border.

        Raises:
            ValueError: the value has none, because it is computed inside the kernel.
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
        tile: Any,
        slot: Index,
        places: Places,
        rows: Group,
        columns: Group,
    ) -> None:
        """DMA of the block of a DDR tensor at ``places`` into a tile."""
        self.b.load(
            self.buffer(value),
            tile=tile,
            slot=slot,
            border=sides(value),
            **self.block(access, places, rows, columns),
        )

    def store(
        self,
        tile: Any,
        slot: Index,
        dtype: str,
        store: Store,
        access: Affine,
        places: Places,
        rows: Group,
        columns: Group,
    ) -> None:
        """DMA of a tile to where ``store`` puts its block; ``access`` is its index over the
        axes."""
        buffer = self.b.buffer(store.symbol, dtype, store.elements)
        self.b.store(tile, slot, buffer, **self.block(access, places, rows, columns))


def sides(value: Value) -> list[PaddedAddress]:
    """The dimensions of ``value`` with a border, and those inside of them; none if it lies in
    memory as it is."""
    border = value.border
    if border is None:
        return []
    every = [
        PaddedAddress(*side) for side in zip(border.sizes, border.low, value.shape, strict=True)
    ]
    first = next(k for k, side in enumerate(every) if side.inside != side.whole)
    return every[first:]


def nodes_above(nodes: Iterable[Node], leaves: Container[int]) -> list[Node]:
    """The nodes that ``nodes`` are computed from, without what lies below those whose ``id`` is in
    ``leaves``."""
    found: dict[int, Node] = {}
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack += () if id(node) in leaves else node.operands
    return list(found.values())


class TileBody:
    """An elementwise body on tiles of a row and a column group: fetches what it reads, maps,
    stores.

    Args:
        blocks: of the kernel.
        rows, columns: the groups that make a tile's sides.
        most: extents of the largest tile.
        operands: DDR tensors that the body reads.
        outputs: elements and where each is stored; ``tiles`` holds those that are computed.
        access: an index of ``operands``, stores or positions as a function of the axes.
        given: tiles that hold, element by element, the value of a node of the body.
        ahead, slots: slots for what is read, and for what is computed.
    """

    def __init__(
        self,
        blocks: BlockTransfers,
        rows: Group,
        columns: Group,
        most: tuple[int, int],
        operands: Sequence[Operand],
        outputs: Sequence[tuple[Node, Sequence[Store]]],
        access: Any,
        given: Mapping[int, Any],
        ahead: int = 1,
        slots: int = 1,
    ) -> None:
        self.blocks, self.rows, self.columns, self.access, self.given = (
            blocks,
            rows,
            columns,
            access,
            dict(given),
        )
        b, extents = (
            blocks.b,
            {"full": most, "row": (1, most[1]), "col": (most[0], 1), "one": (1, 1)},
        )
        self.outputs = outputs
        self.computed: dict[int, Node] = {
            id(node): node for node, _ in outputs if id(node) not in self.given
        }
        inside = nodes_above(self.computed.values(), self.given)
        self.used = {id(node) for node in inside}
        self.positions = list(dict.fromkeys(node.payload for node in inside if node.op == "index"))
        self.reads = []
        for operand in operands:
            word = self._word(access(operand.index))
            self.reads.append(
                (operand, word, b.tile(operand.value.dtype, *extents[word], "am", ahead))
            )
        self.tiles = {
            key: b.tile(node.dtype, *most, "am", slots) for key, node in self.computed.items()
        }
        self.behind: Callable[[Places, Any, Index], None] | None = None
        """What is done with the block of each output, in a slot of a tile, once its stores are
        under way."""

    def _word(self, index: Affine) -> str:
        down = any(index.coeffs[axis] for axis in self.rows)
        along = any(index.coeffs[axis] for axis in self.columns)
        return {
            (True, True): "full",
            (False, True): "row",
            (True, False): "col",
            (False, False): "one",
        }[down, along]

    def build(self, places: Places, slot: Index = 0) -> None:
        """Everything for the tile at ``places``; ``slot`` is that of the given tiles."""
        self.fetch(places)
        self.finish(places, slot)

    def fetch(self, places: Places, read: Index = 0) -> None:
        """Starts the transfers of what the body reads for the tile at ``places``, into slots
        ``read``."""
        for operand, word, tile in self.reads:
            rows = self.rows if word in ("full", "col") else ()
            columns = self.columns if word in ("full", "row") else ()
            self.blocks.load(
                operand.value, self.access(operand.index), tile, read, places, rows, columns
            )

    def finish(self, places: Places, slot: Index = 0, own: Index = 0, read: Index = 0) -> None:
        """The map of what was fetched into slots ``read``, and its stores from slots ``own``."""
        if self.computed:
            self._map(places, slot, own, read)
        for node, stores in self.outputs:
            tile, at = (
                (self.given[id(node)], slot)
                if id(node) in self.given
                else (self.tiles[id(node)], own)
            )
            for store in stores:
                access = self.access(store.index)
                self.blocks.store(
                    tile, at, node.dtype, store, access, places, self.rows, self.columns
                )
            if self.behind is not None:
                self.behind(places, tile, at)

    def _map(self, places: Places, slot: Index, own: Index, read: Index) -> None:
        b = self.blocks.b
        given = [key for key in self.given if key in self.used]
        ins = [(self.given[key], slot, "full") for key in given] + [
            (tile, read, word) for _, word, tile in self.reads
        ]
        # Addresses are scalar instructions: they come before the map.
        starts = {
            index: self.blocks.address(self.access(index), places) for index in self.positions
        }

        def body(arguments: Sequence[Any]) -> list[Any]:
            held = dict(zip(given, arguments, strict=False))
            loaded = arguments[len(given) :]
            read = {
                (id(o.value), o.index): value
                for (o, *_), value in zip(self.reads, loaded, strict=True)
            }

            def leaf(node: Node) -> Any:
                if id(node) in held:
                    return held[id(node)]
                if node.op == "in":
                    return read[id(node.payload.value), node.payload.index]
                if node.op == "index":
                    return self._position(self.access(node.payload), starts[node.payload])
                return None

            return mapped(b, list(self.computed.values()), leaf)

        rows, columns = (
            self.blocks.count(self.rows, places),
            self.blocks.count(self.columns, places),
        )
        b.map(rows, columns, ins, [(tile, own, "full") for tile in self.tiles.values()], body)

    def _position(self, index: Affine, start: Index) -> Any:
        """``index`` inside the map; each side of the tile has one axis with more than one step, or
        walks as one."""
        steps = [index.coeffs[group[-1]] if group else 0 for group in (self.rows, self.columns)]
        return self.blocks.b.position(start, *steps)
