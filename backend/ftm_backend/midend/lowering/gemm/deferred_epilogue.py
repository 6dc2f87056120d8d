"""Panels that are finished late: what follows the products of one, and its stores, run beside the
steps of the next one.

Where cores meet at a barrier after each step, it waits for all that the step has stored: a panel
that is finished behind its last products stores when nobody multiplies, and the engines have little
to do in the other steps. So each step of a panel finishes some chunks of the one before (its C lies
in the other ring), and fetches what finishing the next ones takes.
"""

from __future__ import annotations

from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.panel_loop import PanelLoop, PanelStep
from ftm_backend.target import cost_rules

__all__ = ["DeferredEpilogue"]


class DeferredEpilogue(PanelLoop):
    """Chunks that are finished in one step are a *part* of their panel."""

    def _between(self, step: PanelStep) -> None:
        b, last = self.b, self.plan.k.blocks - 1
        with b.where(("lt", last, step.number)):
            before = self._at(b.sub(step.number, b.add(step.k, 1)))
            self._finish(before, step.k)
            if last:
                with b.where(("lt", step.k, last)):
                    self._ahead(before, b.add(step.k, 1))
        with b.where(*([("eq", step.k, last)] if last else [])):
            self._ahead(step, 0)

    def _behind(self) -> None:
        b, plan = self.b, self.plan
        last = self._at(b.sub(self.steps, 1))
        with b.for_(0, cost_rules.pieces(plan.chunks, plan.late)) as part:
            self._ahead(last, b.add(part, 1))
            self._finish(last, part)

    def _ahead(self, step: PanelStep, part: Index) -> None:
        """Starts the transfers of what a part of the step's panel needs to be finished."""
        b = self.b
        if not self.body.reads:
            return
        with (
            b.where(*self._has_row(step), *self._has_column(step)),
            b.for_(*self._part(step, part)) as chunk,
        ):
            self.body.fetch(self._c_places(step, chunk), self._slot(part, chunk, 2))

    def _finish(self, step: PanelStep, part: Index) -> None:
        """What follows the products of a part of the step's panel."""
        b = self.b
        with (
            b.where(*self._has_row(step), *self._has_column(step)),
            b.for_(*self._part(step, part)) as chunk,
        ):
            product, slot = b.add(self._c_ring(step), chunk), self._slot(part, chunk, 1)
            if self.plan.turn_c:
                self._turn(self._c_places(step, chunk), product, slot)
            self.body.finish(
                self._c_places(step, chunk),
                slot if self.plan.turn_c else product,
                slot,
                self._slot(part, chunk, 2),
            )

    def _part(self, step: PanelStep, part: Index) -> tuple[Index, Index]:
        b, late = self.b, self.plan.late
        first = b.mul(part, late)
        return first, b.min(self._chunks(step), b.add(first, late))

    def _slot(self, part: Index, chunk: Index, rings: int) -> Index:
        """Of a chunk, in as many rings of a part's chunks; there is one where a panel has one
        step."""
        b, late = self.b, self.plan.late
        ring = b.mul(b.rem(part, rings), late) if self.plan.k.blocks > 1 else 0
        return b.add(ring, b.rem(chunk, late))
