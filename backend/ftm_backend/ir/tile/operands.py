"""Operands of tile instructions: slots of tiles, addresses in buffers, extents and strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from ftm_backend.ir.tile.index_arithmetic import Index, IndexArithmetic
from ftm_backend.ir.tile.kernel_tree import IndexUse, Parts, Slot, TileDecl, Transfer

__all__ = ["BufferAddress", "OperandWriter", "PaddedDim"]


class BufferAddress(NamedTuple):
    """A DDR buffer of ``elements`` elements; addresses count from its element 0.

    ``start`` is the element that the parameter ``symbol`` is bound to, 0 for a global buffer.
    """

    symbol: str
    dtype: str
    elements: int
    start: int = 0


class PaddedDim(NamedTuple):
    """A dimension of a buffer that is loaded with zero padding.

    Attributes:
        inside: Its own extent.
        before: Zeros before it.
        whole: Extent including the padding.
    """

    inside: int
    before: int
    whole: int


class OperandWriter(IndexArithmetic):
    """Writes operands as parts of an instruction's text, and records the memory it accesses."""

    def _slot(self, tile: TileDecl, index: Index) -> Slot:
        return Slot(tile, self.expr(0 if tile.depth == 1 else index))

    def _address(self, buffer: BufferAddress, offset: Index) -> Parts:
        return [
            f"{buffer.symbol}[",
            IndexUse(self.expr(self.sub(offset, buffer.start)), address=True),
            "]",
        ]

    def _dims(
        self,
        buffer: BufferAddress,
        offset: Index,
        extents: Sequence[Index],
        strides: Sequence[int],
        row_dims: int,
    ) -> tuple[Parts, Transfer]:
        if len(extents) != len(strides) or not 0 < row_dims < len(extents):
            raise ValueError(
                "a transfer needs one stride for each extent, and at least one row and one column "
                f"dimension: {len(extents)} extents, {len(strides)} strides, {row_dims} row "
                "dimensions"
            )
        sizes = tuple(map(self.expr, extents))
        parts: Parts = []
        for position, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
            parts += [
                " | " if position == row_dims else " " if position else "",
                IndexUse(size),
                f"@{stride}",
            ]
        return parts, Transfer(
            buffer.symbol, self.expr(self.sub(offset, buffer.start)), sizes, tuple(strides)
        )

    def _anywhere(self, buffer: BufferAddress) -> Transfer:
        """Return a transfer whose addresses depend on data."""
        unknown = self._indices.variable("anywhere", 0, 0, inf)
        return Transfer(buffer.symbol, self.expr(0), (self._indices.of(unknown),), (1,))

    def _in_place(self, extents: Sequence[Index], strides: Sequence[Index], row_dims: int) -> Parts:
        parts: Parts = []
        for position, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
            parts += [
                " | " if position == row_dims else " " if position else "",
                IndexUse(self.expr(extent)),
                "@",
                IndexUse(self.expr(stride)),
            ]
        return parts
