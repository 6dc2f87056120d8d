"""Window boxes in a slot: loads of boxes, and strides of windows inside them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Value
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices, sides
from ftm_backend.midend.lowering.gemm.im2col_geometry import COLUMN_SIDES, WindowSide

__all__ = ["WindowBox"]


class WindowBox:
    """The boxes of an operand; see ``im2col_geometry``."""

    def __init__(
        self, blocks: BlockTransfers, sides: Sequence[WindowSide], axes: Sequence[int]
    ) -> None:
        """Set the layout.

        Args:
            blocks: Transfers of the kernel.
            sides: Sides of the box.
            axes: The axes that ``WindowSide`` numbers.
        """
        self.blocks, self.axes = blocks, axes
        self.sides = list(sides)
        self.row_sides = max(len(self.sides) - COLUMN_SIDES, 0)

    def max_extents(self, counts: Sequence[int]) -> tuple[int, int]:
        """Return rows and columns of the largest box, for a block with extents ``counts``."""
        lengths = [
            side.fetched(1 + sum((counts[at] - 1) * abs(step) for at, step in side.steps))
            for side in self.sides
        ]
        return prod(lengths[: self.row_sides]), prod(lengths[self.row_sides :])

    def _lengths(self, slices: Slices) -> list[Index]:
        b = self.blocks.b
        lengths: list[Index] = []
        for side in self.sides:
            length: Index = 1
            for at, step in side.steps:
                length = b.add(length, b.mul(b.sub(slices[self.axes[at]][1], 1), abs(step)))
            lengths.append(side.fetched(length) if isinstance(length, int) else length)
        return lengths

    def extents(self, slices: Slices) -> tuple[Index, Index]:
        """Return rows and columns of the box below the block at ``slices``."""
        b, lengths = self.blocks.b, self._lengths(slices)
        one: Index = 1
        return reduce(b.mul, lengths[: self.row_sides], one), reduce(
            b.mul, lengths[self.row_sides :], one
        )

    def load(
        self,
        value: Value,
        access: Affine,
        tile: TileDecl,
        slot: Index,
        slices: Slices,
        strides: Sequence[int] | None = None,
        tile_extents: tuple[bool, bool] = (True, True),
    ) -> None:
        """Load the box below the block at ``slices`` by DMA.

        Args:
            value: The tensor.
            access: Its access.
            tile: The tile.
            slot: The tile's slot.
            slices: The block.
            strides: The sides' strides, if ``value`` is not the tensor of ``sides``.
            tile_extents: Whether ``value`` has the rows and the columns.
        """
        extents = self._lengths(slices)
        strides = [side.unit for side in self.sides] if strides is None else list(strides)
        first = self._corner(access, slices, strides)
        whole = (self.row_sides, len(self.sides) - self.row_sides)
        rows, columns = (
            count if take else 0 for count, take in zip(whole, tile_extents, strict=True)
        )
        kept = slice(self.row_sides - rows, self.row_sides + columns)
        extents, strides = extents[kept], strides[kept]
        if rows == 0:
            extents, strides = [1, *extents], [1, *strides]
        if columns == 0:
            extents, strides = [*extents, 1], [*strides, 1]
        self.blocks.b.load(
            self.blocks.buffer(value),
            first,
            tile,
            slot,
            extents,
            strides,
            max(rows, 1),
            sides(value),
        )

    def _corner(self, access: Affine, slices: Slices, strides: Sequence[int]) -> Index:
        """Return the first element of the box below the block at ``slices``."""
        b, first = self.blocks.b, self.blocks.address(access, slices)
        for side, stride in zip(self.sides, strides, strict=True):
            for at, step in side.steps:
                if step < 0:  # the block starts at the far end of the box
                    first = b.add(first, b.mul(b.sub(slices[self.axes[at]][1], 1), step * stride))
        return first

    def reads(
        self, tile: TileDecl, slices: Slices, rows: int
    ) -> tuple[list[Index], list[Index], int]:
        """Return how ``MMW`` reads the block at ``slices`` from the slot.

        Args:
            tile: The box's tile.
            slices: The block.
            rows: Number of axes that form the product's rows.

        Returns:
            Extents and strides of the axes, and the number of axes of the rows.
        """
        b, lengths = self.blocks.b, self._lengths(slices)
        distance: dict[int, Index] = {}
        pitch: Index = 1
        for number in range(len(self.sides) - 1, -1, -1):
            if number == self.row_sides - 1:
                pitch = tile.columns
            for at, step in self.sides[number].steps:
                distance[at] = b.mul(pitch, step)
            pitch = b.mul(pitch, lengths[number])
        extents: list[Index] = []
        strides: list[Index] = []
        for at, axis in enumerate(self.axes):
            extents.append(slices[axis][1])
            strides.append(distance.get(at, 0))
        if rows == 0:
            extents, strides, rows = [1, *extents], [0, *strides], 1
        if rows == len(extents):
            extents, strides = [*extents, 1], [*strides, 0]
        return extents, strides, rows
