"""Deferred epilogue: epilogue and stores of a panel run during the steps of the next panel.

If cores share an operand, a barrier ends each step, and waits for the step's stores. An epilogue
after the last products would store while no core multiplies, and leave DMA idle in the other steps.
So each step finishes some chunks of the previous panel (whose C is in the other buffer), and loads
what the next chunks need. Example: with 8 chunks and 4 steps of k, each step finishes 2 chunks.
"""

from __future__ import annotations

from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.panel_loop import PanelLoop
from ftm_backend.midend.lowering.gemm.panel_step import PanelStep
from ftm_backend.target import cost_rules

__all__ = ["DeferredEpilogue"]


class DeferredEpilogue(PanelLoop):
    """A panel loop with a deferred epilogue. A *part* is the chunks that one step finishes."""

    def _epilogue_slots(self) -> tuple[int, int]:
        computed = self.plan.deferred_chunks
        return (2 if self.plan.k_steps > 1 else 1) * computed, computed

    def _result_slots(self) -> int:
        return self.plan.deferred_chunks

    def _during_step(self, step: PanelStep) -> None:
        b, last = self.b, self.plan.k_steps - 1
        with b.where(("lt", last, step.number)):
            before = self._at(b.sub(step.number, b.add(step.k, 1)))
            self._finish(before, step.k)
            if last:
                with b.where(("lt", step.k, last)):
                    self._prefetch_part(before, b.add(step.k, 1))
        with b.where(*([("eq", step.k, last)] if last else [])):
            self._prefetch_part(step, 0)

    def _after_steps(self) -> None:
        b, plan = self.b, self.plan
        last = self._at(b.sub(self.steps, 1))
        with b.for_(0, cost_rules.pieces(plan.chunks, plan.deferred_chunks)) as part:
            self._prefetch_part(last, b.add(part, 1))
            self._finish(last, part)

    def _prefetch_part(self, step: PanelStep, part: Index) -> None:
        """Start the loads of the epilogue of a part of the step's panel."""
        b = self.b
        if not self.body.reads:
            return
        with (
            b.where(*self._has_row(step), *self._has_column(step)),
            b.for_(*self._part(step, part)) as chunk,
        ):
            self.body.fetch(self.slices.c(step, chunk), self._slot(part, chunk, 2))

    def _finish(self, step: PanelStep, part: Index) -> None:
        """Emit the epilogue of a part of the step's panel."""
        b = self.b
        with (
            b.where(*self._has_row(step), *self._has_column(step)),
            b.for_(*self._part(step, part)) as chunk,
        ):
            product, slot = b.add(self._c_ring(step), chunk), self._slot(part, chunk, 1)
            if self.plan.transpose_c:
                self._transform_c(self.slices.c(step, chunk), product, slot)
            self.body.finish(
                self.slices.c(step, chunk),
                slot if self.plan.transpose_c else product,
                slot,
                self._slot(part, chunk, 2),
            )

    def _part(self, step: PanelStep, part: Index) -> tuple[Index, Index]:
        b, deferred_chunks = self.b, self.plan.deferred_chunks
        first = b.mul(part, deferred_chunks)
        return first, b.min(self.slices.chunks(step), b.add(first, deferred_chunks))

    def _slot(self, part: Index, chunk: Index, rings: int) -> Index:
        """Return the slot of a chunk in a ring of ``rings`` parts.

        The ring has one part if a panel has one step.
        """
        b, deferred_chunks = self.b, self.plan.deferred_chunks
        ring = b.mul(b.rem(part, rings), deferred_chunks) if self.plan.k_steps > 1 else 0
        return b.add(ring, b.rem(chunk, deferred_chunks))
