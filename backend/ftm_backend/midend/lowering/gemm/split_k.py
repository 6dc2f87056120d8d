"""Split-k: parts of k are multiplied like further batch entries, then their sums are added up.

It suits a small C with a long k, as in the gradient of a convolution's weights: C has too few
panels for all cores, or cores that share C would each load most of both operands. Panels of partial
sums go to GSM. When all are complete, each core adds up the partial sums of some blocks of C, runs
the epilogue on them and stores them.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.block_transfers import Slices
from ftm_backend.midend.lowering.gemm.panel_loop import PanelLoop
from ftm_backend.midend.lowering.gemm.panel_step import PanelStep

__all__ = ["SplitK"]


class SplitK(PanelLoop):
    """A panel loop over parts of k, and a loop over blocks of C that adds up their sums."""

    def _declare(self) -> None:
        super()._declare()
        b, plan, kind = self.b, self.plan, self.roles.contraction.accumulator
        self.entries = prod(self.form.sizes(self.form.batch))
        slots = self.entries * plan.k_groups * plan.m.blocks * plan.n.blocks
        block = kind, plan.m.elements, plan.n.elements
        self.partial_sums = b.tile(*block, "gsm", slots)
        self.arrived = b.tile(*block, "am", 2)

    def _result_slots(self) -> int:
        return 1

    def _initialize_c(self, slices: Slices, slot: Index) -> bool:
        """Set a chunk to zero if parts are uneven, since one may have no block."""
        if self._has_k(self._at(0)):
            zero = constant(0, self.roles.contraction.accumulator)
            self.b.map(*self._extents(slices), [], [(self.c_tile, slot, "full")], lambda _: [zero])
            return True
        return super()._initialize_c(slices, slot)

    def _prefetch_epilogue(self, step: PanelStep) -> None:
        """Do nothing: the epilogue follows the sum of all parts."""

    def _fetch_epilogue(self, slices: Slices) -> None:
        """Do nothing: the epilogue follows the sum of all parts."""

    def _finish_chunk(self, step: PanelStep, slices: Slices, chunk: Index, c_slot: Index) -> None:
        b, plan = self.b, self.plan
        entry = b.div(step.row, plan.panels)
        number = b.add(b.mul(step.panel, plan.chunks), chunk)
        b.copy(self.c_tile, c_slot, self.partial_sums, self._slot(entry, number, step.column))

    def _slot(self, entry: Index, chunk: Index, column: Index) -> Index:
        """Return the slot in GSM of a block of C; ``entry``: a part of k of a batch entry."""
        b, plan = self.b, self.plan
        return b.add(b.mul(b.add(b.mul(entry, plan.m.blocks), chunk), plan.n.blocks), column)

    def _after_steps(self) -> None:
        """Add up the partial sums of this core's blocks of C, and run the epilogue."""
        b, plan, form = self.b, self.plan, self.form
        blocks = self.entries * plan.m.blocks * plan.n.blocks
        b.barrier()
        with b.for_(self.core, blocks, self.cores) as number:
            rows, column = b.div(number, plan.n.blocks), b.rem(number, plan.n.blocks)
            batch, chunk = b.div(rows, plan.m.blocks), b.rem(rows, plan.m.blocks)
            slices = (
                self.blocks.index_slices(form.batch, batch)
                | self.blocks.block_slices(form.m, plan.m, chunk)
                | self.blocks.block_slices(form.n, plan.n, column)
            )
            self.body.fetch(slices)
            self._add_partial_sums(slices, b.mul(batch, plan.k_groups), chunk, column)
            if plan.transpose_c:
                self._transform_c(slices, 0, 0)
            self.body.finish(slices, 0)

    def _add_partial_sums(self, slices: Slices, entry: Index, chunk: Index, column: Index) -> None:
        """Add up a block of C in the first slot of C's tile; ``entry``: of its first part of k."""
        b, kind, parts = self.b, self.roles.contraction.accumulator, self.plan.k_groups
        name = "arith.addf" if kind.startswith("f") else "arith.addi"
        total = (self.c_tile, 0, "full")

        def load(part: Index) -> None:
            slot = self._slot(b.add(entry, part), chunk, column)
            b.copy(self.partial_sums, slot, self.arrived, b.rem(part, 2))

        b.copy(self.partial_sums, self._slot(entry, chunk, column), self.c_tile, 0)
        load(1)
        with b.for_(1, parts) as part:
            with b.where(("lt", b.add(part, 1), parts)):
                load(b.add(part, 1))
            b.map(
                *self._extents(slices),
                [total, (self.arrived, b.rem(part, 2), "full")],
                [total],
                lambda both: [Node(name, kind, tuple(both))],
            )
