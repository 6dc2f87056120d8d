"""Blocks of B that wait in GSM for all cores: each is fetched by one of them, and copied from
there."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule

if TYPE_CHECKING:
    from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Places
    from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles

__all__ = ["GsmSharedBlocks"]


class GsmSharedBlocks:
    """Slots of GSM: two, for blocks that pass, or one for each block of B where all of them stay
    (`PanelSchedule.pooled`)."""

    def __init__(self, blocks: BlockTransfers, chosen: OperandRoles) -> None:
        assert isinstance(chosen.plan, PanelSchedule)
        self.blocks, self.b, self.chosen, self.form, self.plan = (
            blocks,
            blocks.b,
            chosen,
            chosen.form,
            chosen.plan,
        )
        n, k, turned = self.plan.n.elements, self.plan.k.elements, self.plan.b_form != "plain"
        self.inside = prod(self.form.sizes(self.form.n[1:]))
        waiting = (
            (n // self.inside, k * self.inside)
            if self.plan.piecewise
            else (n, k)
            if turned
            else (k, n)
        )
        slots = self.plan.n.blocks * self.plan.k.blocks if self.plan.pooled else 2
        self.tile = self.b.tile(chosen.b.value.dtype, *waiting, "gsm", slots)

    def slot(self, column: Index, k: Index) -> Index:
        """Where a block waits, if all of them stay."""
        return self.b.add(self.b.mul(column, self.plan.k.blocks), k)

    def fill(self, core: Index, cores: Index) -> None:
        """Starts the transfers of this core's part of all blocks."""
        b, form, plan, depths = self.b, self.form, self.plan, self.plan.k.blocks
        with b.for_(core, plan.n.blocks * depths, cores) as number:
            columns = self.blocks.place(form.n, plan.n, b.div(number, depths))
            if self.chosen.fold is not None:
                columns = self.chosen.fold.place(self.blocks, plan.n, b.div(number, depths))
            self.load(number, columns | self.blocks.place(form.k, plan.k, b.rem(number, depths)))

    def load(self, slot: Index, places: Places) -> None:
        """Starts the transfer of the block at ``places``, which are those of columns and of k."""
        form, plan = self.form, self.plan
        sides = (form.n, form.k) if plan.b_form != "plain" else (form.k, form.n)
        if plan.piecewise:
            sides = (form.n[:1], (*form.k, *form.n[1:]))
        entry = self.blocks.steps(form.batch, 0)  # B is the same for all of them
        self.blocks.load(
            self.chosen.b.value, form.accesses[1], self.tile, slot, places | entry, *sides
        )

    def hand_on(self, waiting: Index, places: Places, tile: TileDecl, slot: Index) -> None:
        """Copies a block of B from GSM; pieces of its rows are put together."""
        b, form = self.b, self.form
        if not self.plan.piecewise:
            b.copy(self.tile, waiting, tile, slot)
            return
        (depth,), (outer, *_) = form.k, form.n
        extents = [places[depth][1], places[outer][1], self.inside]
        b.copy_windows(
            self.tile, waiting, extents, [self.inside, self.tile.columns, 1], 1, tile, slot
        )
