"""A step of a panel loop, and the slices of A, B and C that it covers.

Reads the schedule and the contraction's axes. May emit scalar instructions that
compute the slices; changes nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles

__all__ = ["PanelSlices", "PanelStep"]


class PanelStep(NamedTuple):
    """Indices of a step.

    Attributes:
        number: Position in the core's sequence.
        outer: Index of the outer loop.
        inner: Index of the inner loop.
        k: Block of k, within the step's part of k.
        row: Row panel, counted over all batch entries and their parts of k if the depth is 2.
        column: Block of columns.
        batch: Batch entry.
        panel: Row panel of the batch entry.
        first_k: The first block of the step's part of k.
    """

    number: Index
    outer: Index
    inner: Index
    k: Index
    row: Index
    column: Index
    batch: Index
    panel: Index
    first_k: Index = 0


class PanelSlices:
    """Slices of a step's blocks. A *chunk* is a part of the rows of the step's panel."""

    def __init__(self, blocks: BlockTransfers, roles: OperandRoles) -> None:
        """Set the kernel's transfers and the contraction's operands."""
        assert roles.plan is not None, "an empty result is not computed"
        self.b, self.blocks, self.roles = blocks.b, blocks, roles
        self.form, self.plan = roles.form, roles.plan

    def chunks(self, step: PanelStep) -> Index:
        """Return the number of chunks of the step's row panel."""
        b, plan = self.b, self.plan
        if plan.chunks == 1 or plan.m.blocks % plan.chunks == 0:
            return plan.chunks
        return b.min(plan.chunks, b.sub(plan.m.blocks, b.mul(step.panel, plan.chunks)))

    def a(self, step: PanelStep, chunk: Index) -> Slices:
        """Return the slices of a chunk of A's block."""
        return self._batch(step) | self.k(step) | self._rows(step, chunk)

    def batched_b(self, step: PanelStep) -> Slices:
        """Return the slices of B's block, with the batch entry."""
        return self._batch(step) | self.shared_b(step)

    def shared_b(self, step: PanelStep) -> Slices:
        """Return the slices of B's block, if B is the same for all batch entries."""
        return self._columns(step) | self.k(step)

    def c(self, step: PanelStep, chunk: Index) -> Slices:
        """Return the slices of a chunk of the panel of C."""
        return self._batch(step) | self._columns(step) | self._rows(step, chunk)

    def k(self, step: PanelStep) -> Slices:
        """Return the slices of the block of k."""
        return self.blocks.block_slices(self.form.k, self.plan.k, self.b.add(step.first_k, step.k))

    def _batch(self, step: PanelStep) -> Slices:
        return self.blocks.index_slices(self.form.batch, step.batch)

    def _rows(self, step: PanelStep, chunk: Index) -> Slices:
        b, plan = self.b, self.plan
        number = b.add(b.mul(step.panel, plan.chunks), chunk)
        return self.blocks.block_slices(self.form.m, plan.m, number)

    def _columns(self, step: PanelStep) -> Slices:
        if self.roles.col2im is not None:
            return self.roles.col2im.block_slices(self.blocks, self.plan.n, step.column)
        return self.blocks.block_slices(self.form.n, self.plan.n, step.column)
