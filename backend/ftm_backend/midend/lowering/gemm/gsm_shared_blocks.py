"""Blocks of B in GSM, shared by all cores: one core loads each block, the others copy it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl

if TYPE_CHECKING:
    from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices
    from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles

__all__ = ["GsmSharedBlocks"]


class GsmSharedBlocks:
    """Slots in GSM: two for passing blocks, or one per block if all of B is kept there."""

    def __init__(self, blocks: BlockTransfers, roles: OperandRoles) -> None:
        """Declare the slots."""
        assert roles.plan is not None, "an empty result is not computed"
        self.blocks = blocks
        self.b = blocks.b
        self.roles = roles
        self.form = roles.form
        self.plan = roles.plan
        n, k, transposed = self.plan.n.elements, self.plan.k.elements, self.plan.b_layout != "plain"
        self.inside = prod(self.form.sizes(self.form.n[1:]))
        gsm_slot = (
            (n // self.inside, k * self.inside)
            if self.plan.split_rows
            else (n, k)
            if transposed
            else (k, n)
        )
        slots = self.plan.n.blocks * self.plan.k.blocks if self.plan.b_in_gsm else 2
        self.tile = self.b.tile(roles.b.value.dtype, *gsm_slot, "gsm", slots)

    def slot(self, column: Index, k: Index) -> Index:
        """Return the slot of a block if all of B is kept."""
        return self.b.add(self.b.mul(column, self.plan.k.blocks), k)

    def fill(self, core: Index, cores: Index) -> None:
        """Start the loads of this core's part of all blocks."""
        b, form, plan, depths = self.b, self.form, self.plan, self.plan.k.blocks
        with b.for_(core, plan.n.blocks * depths, cores) as number:
            columns = self.blocks.block_slices(form.n, plan.n, b.div(number, depths))
            if self.roles.col2im is not None:
                columns = self.roles.col2im.block_slices(self.blocks, plan.n, b.div(number, depths))
            self.load(
                number, columns | self.blocks.block_slices(form.k, plan.k, b.rem(number, depths))
            )

    def load(self, slot: Index, slices: Slices) -> None:
        """Start the load of the block at ``slices``, which cover columns and k."""
        form, plan = self.form, self.plan
        sides = (form.n, form.k) if plan.b_layout != "plain" else (form.k, form.n)
        if plan.split_rows:
            sides = (form.n[:1], (*form.k, *form.n[1:]))
        entry = self.blocks.index_slices(form.batch, 0)  # B is the same for all batch entries
        self.blocks.load(
            self.roles.b.value, form.accesses[1], self.tile, slot, slices | entry, *sides
        )

    def copy_to(self, gsm_slot: Index, slices: Slices, tile: TileDecl, slot: Index) -> None:
        """Copy a block of B from GSM to a tile, with its rows assembled if they are split."""
        b, form = self.b, self.form
        if not self.plan.split_rows:
            b.copy(self.tile, gsm_slot, tile, slot)
            return
        (depth,), (outer, *_) = form.k, form.n
        extents = [slices[depth][1], slices[outer][1], self.inside]
        b.copy_windows(
            self.tile, gsm_slot, extents, [self.inside, self.tile.columns, 1], 1, tile, slot
        )
