"""Nested loops over tiles of C, for schedules of depth 1.

Each core executes this loop nest::

    for each batch entry, tile of the outer loop, tile of the inner loop:
        for each block of k:  C += A . B        # A from SM, B from AM
        apply the epilogue, and store C

The schedule determines which tiles stay resident and which loop is split among cores. All sizes may
be symbolic.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.kernel_ir.kernel import core_share
from ftm_backend.midend.lowering.gemm.emitter import ContractionEmitter
from ftm_backend.midend.lowering.gemm.panel_step import PanelStep
from ftm_backend.symbolic import statically_known_equal

__all__ = ["NestedLoops"]

Range = tuple[Index, Index]
"""First number and the one after the last."""


class NestedLoops(ContractionEmitter):
    """The loop nest of one kernel."""

    def build(self) -> None:
        """Emit the whole nest, on all cores or guarded for core 0."""
        b = self.b
        if self.plan.cores == 1 and not self.kernel.one_core:
            with b.if_(b.compare("eq", b.core_id(), 0)):
                self._batches()
        else:
            self._batches()

    def _range(self, groups: int, trips: int) -> Range:
        return core_share(self.b, self.kernel, trips) if groups > 1 else (0, trips)

    def _batches(self) -> None:
        b, plan, form = self.b, self.plan, self.form
        rows = self._range(plan.row_groups, plan.m.blocks)
        columns = self._range(plan.column_groups, plan.n.blocks)
        outer_range, inner_range = (rows, columns) if plan.m_outer else (columns, rows)
        keeps_inner, is_batched = plan.keep_inner and self.has_products, self._inner_is_batched
        if keeps_inner and not is_batched:
            self._load_inner(0, inner_range)
        with b.for_(*self._range(plan.batch_groups, prod(form.sizes(form.batch)))) as batch:
            if keeps_inner and is_batched:
                self._load_inner(batch, inner_range)
            with b.for_(*outer_range) as outer:
                if plan.keep_outer and self.has_products:
                    with b.for_(0, plan.k.blocks) as k:
                        self._load(plan.m_outer, self._step(batch, outer, 0, k))
                with b.for_(*inner_range) as inner:
                    self._tile(batch, outer, inner)

    @property
    def _inner_is_batched(self) -> bool:
        """Whether each batch entry has its own inner operand."""
        access = self.form.accesses[1 if self.plan.m_outer else 0]
        return any(access.coeffs[axis] for axis in self.form.batch)

    def _step(self, batch: Index, outer: Index, inner: Index, k: Index) -> PanelStep:
        row, column = (outer, inner) if self.plan.m_outer else (inner, outer)
        return PanelStep(0, outer, inner, k, row, column, batch, row)

    def _load_inner(self, batch: Index, numbers: Range) -> None:
        """Load this core's part of the inner operand, which stays resident."""
        with self.b.for_(*numbers) as inner, self.b.for_(0, self.plan.k.blocks) as k:
            self._load(not self.plan.m_outer, self._step(batch, 0, inner, k))

    def _load(self, is_a: bool, step: PanelStep) -> None:
        """Load the tile of A or of B of a step."""
        if is_a:
            self.operands.load_a(step, 0, 1)
        else:
            self.operands.load_b(step)

    def _tile(self, batch: Index, outer: Index, inner: Index) -> None:
        """Emit one tile of C."""
        slices = self.slices.c(self._step(batch, outer, inner, 0), 0)
        has_start = self._initialize_c(slices, 0)
        if self.has_products:
            self._accumulate(self._step(batch, outer, inner, 0), has_start)
            if not statically_known_equal(self.plan.k.blocks, 1):
                with self.b.for_(1, self.plan.k.blocks) as k:
                    self._accumulate(self._step(batch, outer, inner, k), True)
        self.body.build(slices)

    def _accumulate(self, step: PanelStep, acc: bool) -> None:
        """Load the blocks of a step that are not resident, and multiply them."""
        plan = self.plan
        if not plan.keep_outer:
            self._load(plan.m_outer, step)
        if not plan.keep_inner:
            self._load(not plan.m_outer, step)
        self._product(step, 0, (self.operands.b_slot(step), 0), {}, acc)
