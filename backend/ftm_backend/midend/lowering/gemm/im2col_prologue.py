"""Prologue of an im2col operand: computes window boxes of A on chip.

Example: a convolution reads ``relu(batch_norm(x))``. The box of ``x`` below a block is loaded, and
a map replaces it by ``relu(batch_norm(x))`` in AM, where the products read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Operand
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import Slices, broadcast_mode
from ftm_backend.midend.lowering.gemm.im2col_geometry import box_strides
from ftm_backend.midend.lowering.gemm.im2col_loads import WindowBox
from ftm_backend.midend.lowering.gemm.prologue import OperandPrologue
from ftm_backend.midend.lowering.map_bodies import mapped

__all__ = ["PrologueBox"]


class PrologueBox:
    """The boxes of an operand with a prologue."""

    def __init__(
        self,
        box: WindowBox,
        prologue: OperandPrologue,
        access: Callable[[Affine], Affine],
        tile: TileDecl,
        slots: int,
    ) -> None:
        """Declare the tiles of the prologue's operands.

        Args:
            box: Layout of a box in a slot.
            prologue: The prologue.
            access: Maps an index of the prologue's operands to the axes.
            tile: Tile of the result. The first operand of the same size is loaded into it.
            slots: Slots of each other operand.
        """
        self.box, self.prologue, self.access, self.tile = box, prologue, access, tile
        self.first, *others = sorted(
            prologue.operands, key=lambda operand: operand not in prologue.elementwise
        )
        self.others = [(operand, *self._other_tile(operand, slots)) for operand in others]

    def _other_tile(self, operand: Operand, slots: int) -> tuple[str, TileDecl]:
        """Return an operand's broadcast mode in the map, and its tile."""
        strides, rows = self._strides(operand), self.box.row_sides
        down, along = any(strides[:rows]), any(strides[rows:])
        extents = self.tile.rows if down else 1, self.tile.columns if along else 1
        tile = self.box.blocks.b.tile(operand.value.dtype, *extents, "am", slots)
        return broadcast_mode(down, along), tile

    def _strides(self, operand: Operand) -> tuple[int, ...]:
        strides = box_strides(self.box.sides, self.box.axes, self.access(operand.index))
        assert strides is not None, "the planner accepts only operands that fit the box"
        return strides

    def fetch(self, slices: Slices, slot: Index, other_slot: Index) -> None:
        """Start the loads of the box below the block at ``slices``.

        Args:
            slices: The block.
            slot: Slot of the result's tile.
            other_slot: Slot of the other operands' tiles.
        """
        self.box.load(self.first.value, self.access(self.first.index), self.tile, slot, slices)
        for operand, broadcast, tile in self.others:
            tile_extents = broadcast in ("full", "col"), broadcast in ("full", "row")
            self.box.load(
                operand.value,
                self.access(operand.index),
                tile,
                other_slot,
                slices,
                self._strides(operand),
                tile_extents,
            )

    def emit(self, slices: Slices, slot: Index, other_slot: Index) -> None:
        """Emit the map that computes the box."""
        b, result = self.box.blocks.b, (self.tile, slot, "full")

        def body(arguments: Sequence[Node]) -> list[Node]:
            operands = [self.first, *(operand for operand, _, _ in self.others)]
            arguments_of = {
                (operand.value, operand.index): value
                for operand, value in zip(operands, arguments, strict=True)
            }
            return mapped(
                b,
                [self.prologue.element],
                lambda n: arguments_of[n.payload.value, n.payload.index] if n.op == "in" else None,
            )

        b.map(
            *self.box.extents(slices),
            [result, *((tile, other_slot, broadcast) for _, broadcast, tile in self.others)],
            [result],
            body,
        )
