"""Steps over panels of C, for schedules of depth 2: the machine's DMA overlaps compute.

Each core executes a sequence of *steps*, one per panel of C and block of k. A step

1. starts the loads of the next step's blocks of A and B,
2. multiplies its own blocks,
3. at the last block of k, runs the epilogue and stores the panel.

If cores share an operand in GSM, a barrier ends each step: the next step's blocks have then been
loaded, and no core reads the blocks that the step after it overwrites.

This module divides the panels among cores, and emits the loop and its barriers. The program is
correct for any number of cores: the schedule's grid is an upper bound of the number of core groups.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple, TypeVar

from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.block_transfers import Slices
from ftm_backend.midend.lowering.gemm.emitter import ContractionEmitter
from ftm_backend.midend.lowering.gemm.panel_step import PanelStep

__all__ = ["PanelLoop"]


T = TypeVar("T")


class _Range(NamedTuple):
    """This core's part of the row panels or column blocks; ``step_count``: steps of all cores."""

    low: Index
    high: Index
    step_count: Index


class PanelLoop(ContractionEmitter):
    """The steps of one kernel."""

    @property
    def has_barriers(self) -> bool:
        """Whether a barrier ends each step."""
        return self.plan.share != "none"

    @property
    def prefetches_epilogue(self) -> bool:
        """Whether the epilogue's operands are loaded before a panel's last step.

        With several chunks, the multi-buffer pass adds slots instead.
        """
        return self.plan.chunks == 1 and not self.plan.deferred_chunks

    # --- cores

    def _divide(self) -> None:
        """Set the grid of cores, limited to the number of cores at run time."""
        b, plan = self.b, self.plan
        self.core, self.cores = core, cores = self.kernel.core(b)
        rows = prod(self.form.sizes(self.form.batch)) * plan.k_groups * plan.panels
        row_groups = b.min(plan.row_groups, cores)
        self.sharers = b.max(1, b.min(plan.column_groups, b.div(cores, row_groups)))
        self.group, self.member = b.div(core, self.sharers), b.rem(core, self.sharers)
        self.row_groups = row_groups
        self.row_range = self._range(rows, self.group, row_groups)
        self.column_range = self._range(plan.n.blocks, self.member, self.sharers)
        outer, inner = self._loops(self.row_range, self.column_range)
        self.inner_count = b.max(1, inner.step_count)
        self.steps = b.mul(b.mul(outer.step_count, inner.step_count), plan.k_steps)

    def _range(self, total: int, number: Index, parts: Index) -> _Range:
        b = self.b
        low, high = (
            b.min(b.div(b.mul(at, total), parts), total) for at in (number, b.add(number, 1))
        )
        # With barriers, all cores execute as many steps as the busiest one.
        step_count = (
            b.div(b.add(b.sub(parts, 1), total), parts) if self.has_barriers else b.sub(high, low)
        )
        return _Range(low, high, step_count)

    def _loops(self, rows: T, columns: T) -> tuple[T, T]:
        """Return the parts of the outer and of the inner loop."""
        return (rows, columns) if self.plan.m_outer else (columns, rows)

    def _at(self, number: Index) -> PanelStep:
        """Return step ``number`` of this core."""
        b, blocks = self.b, self.plan.k_steps
        panel = b.div(number, blocks)
        outer, inner = (
            (b.div(panel, self.inner_count), b.rem(panel, self.inner_count))
            if number != 0
            else (0, 0)
        )
        row, column = self._loops(outer, inner)
        row, column = b.add(self.row_range.low, row), b.add(self.column_range.low, column)
        return self._step(number, (outer, inner), b.rem(number, blocks), row, column)

    def _step(
        self, number: Index, loops: tuple[Index, Index], k: Index, row: Index, column: Index
    ) -> PanelStep:
        """Return a step; ``row`` is counted over all batch entries and their parts of k."""
        b, panels = self.b, self.plan.panels
        entry, parts = b.div(row, panels), self.plan.k_groups
        first_k = b.mul(b.rem(entry, parts), self.plan.k_steps) if parts > 1 else 0
        batch, panel = b.div(entry, parts), b.rem(row, panels)
        return PanelStep(number, *loops, k, row, column, batch, panel, first_k)

    def _has_row(self, step: PanelStep) -> list[tuple[str, Index, Index]]:
        return [("lt", step.row, self.row_range.high)] if self.has_barriers else []

    def _has_column(self, step: PanelStep) -> list[tuple[str, Index, Index]]:
        return [("lt", step.column, self.column_range.high)] if self.has_barriers else []

    def _has_k(self, step: PanelStep) -> list[tuple[str, Index, Index]]:
        """Return the condition that the step's part of k has the block, if parts are uneven."""
        k, is_even = self.plan.k, self.plan.k.blocks % self.plan.k_groups == 0
        return [] if is_even else [("lt", self.b.add(step.first_k, step.k), k.blocks)]

    def _gsm_part(self) -> tuple[Index, int]:
        """Return which part of GSM has this core's chunks of A, and the number of such parts."""
        plan = self.plan
        if plan.share == "a":
            return self.group, plan.row_groups
        return self.b.add(
            self.b.mul(self.group, plan.column_groups), self.member
        ), plan.row_groups * plan.column_groups

    # --- steps

    def build(self) -> None:
        """Emit the whole sequence."""
        b = self.b
        self._begin()
        is_known = self.has_barriers or isinstance(self.steps, int)
        with b.where(*([] if is_known else [("lt", 0, self.steps)])):
            self._fetch(self._at(0))
        if self.has_barriers:
            b.barrier()
        with b.for_(0, self.steps) as number:
            self._emit_step(number)
        self._after_steps()

    def _begin(self) -> None:
        """Emit what all cores must have done before the first step."""
        b, plan = self.b, self.plan
        if plan.uses_gsm and not self.kernel.one_core:
            b.barrier()  # other cores may still read what an earlier kernel left in GSM
        if plan.b_in_gsm and not plan.fills_during_panel:
            self.operands.shared_b.fill(self.core, self.cores)
            b.barrier()
        if plan.streams_b:
            for ahead in (0, 1):
                self._load_shared_b(ahead)
            b.barrier()

    def _emit_step(self, number: Index) -> None:
        b, plan = self.b, self.plan
        step, following = self._at(number), self._at(b.add(number, 1))
        if plan.k_steps == 1:
            self._prefetch_epilogue(step)
        if not (isinstance(number, int) and isinstance(self.steps, int)):
            with b.where(("lt", following.number, self.steps)):
                self._fetch(following)
        if plan.k_steps > 1:
            self._prefetch_epilogue(step)
        if plan.streams_b:
            self._load_shared_b(b.add(number, 2))
        self._during_step(step)
        with b.where(*self._has_row(step), *self._has_column(step)):
            self._multiply(step)
        if self.has_barriers:
            self._end_step(step)

    def _prefetch_epilogue(self, step: PanelStep) -> None:
        """Start the epilogue's loads for a panel of one chunk, before the next panel's loads."""
        k = self.plan.k_steps
        if self.prefetches_epilogue and self.body.reads:
            with self.b.where(
                *([("eq", step.k, k - 2)] if k > 1 else []),
                *self._has_row(step),
                *self._has_column(step),
            ):
                self.body.fetch(self.slices.c(step, 0))

    def _during_step(self, step: PanelStep) -> None:
        """Emit what a step does besides its own products; see ``deferred_epilogue``."""

    def _after_steps(self) -> None:
        """Emit what remains after the last step."""

    def _end_step(self, step: PanelStep) -> None:
        """Emit the barrier at the end of a step.

        If A stays resident, a barrier is needed only while a panel of A is exchanged.
        """
        b = self.b
        if not self.operands.a_ring.resident or self.plan.share == "b":
            b.barrier()
            return
        # Also after the step before the exchange: the last step overwrites the first blocks.
        for ahead in (1, 2):
            with self.b.where(
                ("eq", self._at(b.add(step.number, ahead)).inner, 0),
                *([("ne", self._at(b.add(step.number, 1)).inner, 0)] if ahead == 2 else []),
            ):
                b.barrier()

    def _fetch(self, step: PanelStep) -> None:
        """Start the loads of the step's blocks of A and B that are not resident.

        B is first, since all chunks need it. Products of the first chunk can then start while the
        other chunks of A are loaded.
        """
        first = [("eq", step.inner, 0)] if not isinstance(step.inner, int) else []
        with self.b.where(
            *(first if self.operands.b_ring.resident else []),
            *self._has_row(step),
            *self._has_column(step),
            *self._has_k(step),
        ):
            self.operands.load_b(step)
        with self.b.where(
            *(first if self.operands.a_ring.resident else []),
            *self._has_row(step),
            *self._has_k(step),
        ):
            own = (self.member, self.sharers) if self.plan.share == "a" else (0, 1)
            self.operands.load_a(step, *own)

    def _load_shared_b(self, number: Index) -> None:
        """Start the load of a step's block of B into GSM; the row groups alternate."""
        b, step = self.b, self._at(number)
        once = [("eq", step.inner, 0), *self._has_column(step)] if self.plan.b_in_gsm else []
        with b.where(
            ("eq", b.rem(number, self.row_groups), self.group), ("lt", number, self.steps), *once
        ):
            self.operands.load_shared_b(step)

    def _multiply(self, step: PanelStep) -> None:
        """Emit the step's products; at the last block of k, also the epilogue."""
        plan = self.plan
        with self.b.where(*self._has_k(step)):
            self.operands.prepare_b(step)
        last = plan.k_steps - 1
        if last == 0:
            self._products(step, True, True)
            return
        with self.b.where(("eq", step.k, 0)):
            self._products(step, True, False)
        if last > 1:
            with self.b.where(("lt", 0, step.k), ("lt", step.k, last)):
                self._products(step, False, False)
        with self.b.where(("eq", step.k, last)):
            self._products(step, False, True)

    def _products(self, step: PanelStep, first: bool, last: bool) -> None:
        b = self.b
        b_slot, ring = self.operands.b_slot(step), self._c_ring(step)
        finished = last and not self.plan.deferred_chunks
        needs_slices = first or last or self.operands.box is not None
        with b.for_(0, self.slices.chunks(step)) as chunk:
            c_slot = b.add(ring, chunk)
            slices = self.slices.c(step, chunk) if needs_slices else {}
            started = not first or self._initialize_c(slices, c_slot)
            if finished and not self.prefetches_epilogue:
                self._fetch_epilogue(slices)  # overlaps the product
            with b.where(*self._has_k(step)):
                self._product(step, chunk, (b_slot, c_slot), slices, started)
            if finished:
                self._finish_chunk(step, slices, chunk, c_slot)

    def _fetch_epilogue(self, slices: Slices) -> None:
        """Start the epilogue's loads for a chunk."""
        self.body.fetch(slices)

    def _finish_chunk(self, step: PanelStep, slices: Slices, chunk: Index, c_slot: Index) -> None:
        """Emit the epilogue of a chunk, and store it."""
        result = c_slot
        if self.plan.transpose_c:
            result = self.b.rem(chunk, 2)
            self._transform_c(slices, c_slot, result)
        self.body.finish(slices, result)

    def _c_ring(self, step: PanelStep) -> Index:
        """Return the slot of the panel's first chunk."""
        b, plan = self.b, self.plan
        return b.mul(b.rem(b.div(step.number, plan.k_steps), plan.c_buffers), plan.chunks)
