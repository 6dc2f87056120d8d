"""Operands of tile instructions: slots of tiles, addresses in buffers, extents and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.tile.index_arithmetic import Index, IndexArithmetic
from ftm_backend.ir.tile.index_expr import Expr
from ftm_backend.ir.tile.kernel_tree import Address, Slot, TileDecl


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
    """Makes operands of indices that are integers or expressions."""

    def _slot(self, tile: TileDecl, index: Index) -> Slot:
        return Slot(tile, self.expr(0 if tile.depth == 1 else index))

    def _address(self, buffer: BufferAddress, offset: Index) -> Address:
        return Address(buffer.symbol, self.expr(self.sub(offset, buffer.start)))

    def _dims(
        self, extents: Sequence[Index], strides: Sequence[Index], row_dims: int
    ) -> p.Dims[Expr]:
        if len(extents) != len(strides) or not 0 < row_dims < len(extents):
            raise ValueError(
                "a transfer needs one stride for each extent, and at least one row and one column "
                f"dimension: {len(extents)} extents, {len(strides)} strides, {row_dims} row "
                "dimensions"
            )
        expr = self.expr
        pairs = tuple((expr(e), expr(s)) for e, s in zip(extents, strides, strict=True))
        return p.Dims(pairs[:row_dims], pairs[row_dims:])

    def _rows(self, stride: int, columns: Index) -> p.Dims[Expr]:
        """Return the dimensions of a transfer of rows that are ``stride`` elements apart."""
        return p.Dims((), ((self.expr(columns), self.expr(1)),), self.expr(stride))
