"""Boxes of A that are computed on chip, of boxes of other tensors as they arrive.

The windows of a convolution read what a normalization and an activation make of another
convolution's result. The box below a block is fetched of that result; a map computes the elements
in the same place in AM, where products take them from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Operand
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import Places
from ftm_backend.midend.lowering.gemm.im2col_operand import box_strides
from ftm_backend.midend.lowering.gemm.prologue import OperandPrologue
from ftm_backend.midend.lowering.gemm.window_box import WindowBox
from ftm_backend.midend.lowering.map_bodies import mapped

__all__ = ["PrologueBox"]


class PrologueBox:
    """The boxes of a factor.

    Args:
        box: how each lies in a slot.
        factor: what it is computed of.
        access: an index of the factor's operands as a function of the axes.
        tile: where it is computed; the first tensor of its size arrives there.
        slots: for what else it is computed of.
    """

    def __init__(
        self,
        box: WindowBox,
        factor: OperandPrologue,
        access: Callable[[Affine], Affine],
        tile: TileDecl,
        slots: int,
    ) -> None:
        self.box, self.factor, self.access, self.tile = box, factor, access, tile
        self.first, *others = sorted(
            factor.operands, key=lambda operand: operand not in factor.wide
        )
        self.others = [(operand, *self._beside(operand, slots)) for operand in others]

    def _beside(self, operand: Operand, slots: int) -> tuple[str, TileDecl]:
        """Whether an operand has rows and columns of its own, as maps say it, and where it
        arrives."""
        strides, rows = self._strides(operand), self.box.row_sides
        down, along = any(strides[:rows]), any(strides[rows:])
        extents = self.tile.rows if down else 1, self.tile.columns if along else 1
        word = {
            (True, True): "full",
            (False, True): "row",
            (True, False): "col",
            (False, False): "one",
        }[down, along]
        return word, self.box.blocks.b.tile(operand.value.dtype, *extents, "am", slots)

    def _strides(self, operand: Operand) -> tuple[int, ...]:
        strides = box_strides(self.box.sides, self.box.axes, self.access(operand.index))
        assert strides is not None, "such a factor is not planned so"
        return strides

    def fetch(self, places: Places, slot: Index, beside: Index) -> None:
        """Starts the transfers of what the box below the block at ``places`` is computed of, into
        slots of its tile and of the others."""
        self.box.load(self.first.value, self.access(self.first.index), self.tile, slot, places)
        for operand, word, tile in self.others:
            taken = word in ("full", "col"), word in ("full", "row")
            self.box.load(
                operand.value,
                self.access(operand.index),
                tile,
                beside,
                places,
                self._strides(operand),
                taken,
            )

    def make(self, places: Places, slot: Index, beside: Index) -> None:
        """Computes the box of what has arrived."""
        b, here = self.box.blocks.b, (self.tile, slot, "full")

        def body(arguments: Sequence[Node]) -> list[Node]:
            operands = [self.first, *(operand for operand, _, _ in self.others)]
            known = {
                (operand.value, operand.index): value
                for operand, value in zip(operands, arguments, strict=True)
            }
            return mapped(
                b,
                [self.factor.element],
                lambda n: known[n.payload.value, n.payload.index] if n.op == "in" else None,
            )

        b.map(
            *self.box.extents(places),
            [here, *((tile, beside, word) for _, word, tile in self.others)],
            [here],
            body,
        )
