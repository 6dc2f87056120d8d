"""Split-k: the cores of a group compute a part of k each for the same panel of C.

It suits a small C with a long k, as in the gradient of a convolution's weights. Cores that share C
would each load most of both operands; cores that share k load only their part. When a panel's
products are done, the cores exchange partial sums through GSM. Each chunk belongs to one *member*
of the group, which adds up the other members' partial sums and runs the epilogue.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.linalg.scalar_nodes import constant
from ftm_backend.ir.tile.builder import Index
from ftm_backend.midend.lowering.gemm.block_transfers import Slices
from ftm_backend.midend.lowering.gemm.panel_loop import PanelLoop
from ftm_backend.midend.lowering.gemm.panel_step import PanelStep
from ftm_backend.target import cost_rules

__all__ = ["SplitKPanels"]


class SplitKPanels(PanelLoop):
    """A panel loop with split k. Steps are the core's blocks of k, numbered within the panel."""

    # --- cores

    def _divide(self) -> None:
        b, plan = self.b, self.plan
        self.core, cores = self.kernel.core(b)
        self.groups = b.min(plan.row_groups * plan.column_groups, cores)
        self.members = b.max(1, b.min(min(plan.k_groups, plan.k.blocks), b.div(cores, self.groups)))
        self.group, self.member = b.rem(self.core, self.groups), b.div(self.core, self.groups)
        total = plan.panels * plan.n.blocks
        self.low, self.high = (
            b.div(b.mul(at, total), self.groups) for at in (self.group, b.add(self.group, 1))
        )
        # Panels of the busiest group: all cores execute its barriers.
        self.panels = b.div(b.add(b.sub(self.groups, 1), total), self.groups)
        # Cores without a group get no blocks of k.
        first, last = (b.min(at, self.members) for at in (self.member, b.add(self.member, 1)))
        self.first_k, end = (b.div(b.mul(at, plan.k.blocks), self.members) for at in (first, last))
        self.steps = b.sub(end, self.first_k)

    def _gsm_part(self) -> tuple[Index, int]:
        return self.core, self.plan.cores

    def _epilogue_slots(self) -> tuple[int, int]:
        return self.ahead, 1

    def _result_slots(self) -> int:
        return 1

    def _declare(self) -> None:
        b, plan = self.b, self.plan
        # Chunks of a member, whose epilogue operands are loaded during the loop over k.
        self.ahead = cost_rules.pieces(plan.chunks, plan.k_groups)
        super()._declare()
        kind = self.roles.contraction.accumulator
        self.partial_sums = b.tile(
            kind, plan.m.elements, plan.n.elements, "gsm", plan.cores * plan.chunks
        )
        self.arrived = b.tile(kind, plan.m.elements, plan.n.elements, "am", 2)

    def _part(self, member: Index, chunk: Index) -> Index:
        """Return the slot in GSM of a member's partial sum of a chunk."""
        b = self.b
        return b.add(b.mul(b.add(b.mul(member, self.groups), self.group), self.plan.chunks), chunk)

    # --- steps

    def build(self) -> None:
        """Emit the whole sequence."""
        b = self.b
        b.barrier()  # other cores may still read what an earlier kernel left in GSM
        with b.for_(0, self.panels) as number:
            panel = b.add(self.low, number)
            has_panel = ("lt", panel, self.high)
            with b.where(has_panel):
                self._multiply_panel(panel)
            b.barrier()
            with b.where(has_panel, ("lt", self.member, self.members)):
                self._reduce_partial_sums(panel)
            b.barrier()  # the next panel's partial sums overwrite those of this one

    def _step_of(self, panel: Index, number: Index) -> PanelStep:
        b, blocks = self.b, self.plan.n.blocks
        k = b.add(self.first_k, number)
        return self._step(number, (0, 0), k, b.div(panel, blocks), b.rem(panel, blocks))

    def _multiply_panel(self, panel: Index) -> None:
        """Emit the products of this core's part of k, and copies of its partial sums to GSM."""
        b, last = self.b, self.b.sub(self.steps, 1)
        with b.for_(0, b.min(1, self.steps)):
            self._fetch(self._step_of(panel, 0))
            self._zero_panel(self._step_of(panel, 0))
        with b.for_(0, self.steps) as number:
            step = self._step_of(panel, number)
            with b.where(("lt", number, last)):
                self._fetch(self._step_of(panel, b.add(number, 1)))
            self._prefetch_epilogue_part(step, b.sub(last, number))
            self._multiply(step)

    def _zero_panel(self, step: PanelStep) -> None:
        """Set the panel to zero while its first blocks are loaded."""
        b, kind = self.b, self.roles.contraction.accumulator
        with b.for_(0, self.slices.chunks(step)) as chunk:
            b.map(
                *self._extents(self.slices.c(step, chunk)),
                [],
                [(self.c_tile, chunk, "full")],
                lambda _: [constant(0, kind)],
            )

    def _multiply(self, step: PanelStep) -> None:
        b, last = self.b, ("eq", step.number, self.b.sub(self.steps, 1))
        self.operands.prepare_b(step)
        with b.for_(0, self.slices.chunks(step)) as chunk:
            slices = self.slices.c(step, chunk) if self.operands.box is not None else {}
            self._product(step, chunk, (self.operands.b_slot(step), chunk), slices, True)
            with b.where(last, ("ne", b.rem(chunk, self.members), self.member)):
                b.copy(self.c_tile, chunk, self.partial_sums, self._part(self.member, chunk))

    def _reduce_partial_sums(self, panel: Index) -> None:
        """Add up the other members' partial sums of this member's chunks, and run the epilogue."""
        b, step = self.b, self._step_of(panel, 0)
        remaining = b.sub(self.slices.chunks(step), self.member)
        own_count = b.div(b.add(remaining, b.sub(self.members, 1)), self.members)
        with b.for_(0, own_count) as number:
            chunk = self._own_chunk(number)
            # with fewer cores than planned
            with b.where(("lt", b.sub(b.min(self.ahead, self.steps), 1), number)):
                self.body.fetch(self.slices.c(step, chunk), b.rem(number, self.ahead))
            with b.for_(1, b.min(2, self.members)) as other:
                self._copy_partial_sum(other, chunk)
            slices = self.slices.c(step, chunk)
            with b.for_(1, self.members) as other:
                with b.where(("lt", b.add(other, 1), self.members)):
                    self._copy_partial_sum(b.add(other, 1), chunk)
                self._add_partial_sum(slices, chunk, b.rem(other, 2))
            if self.plan.transpose_c:
                self._transform_c(slices, chunk, 0)
            self.body.finish(
                slices, 0 if self.plan.transpose_c else chunk, 0, b.rem(number, self.ahead)
            )

    def _own_chunk(self, number: Index) -> Index:
        """Return this member's chunk number ``number``."""
        return self.b.add(self.member, self.b.mul(number, self.members))

    def _prefetch_epilogue_part(self, step: PanelStep, number: Index) -> None:
        """Start the epilogue's loads for one of this member's chunks, if it exists."""
        b = self.b
        with b.where(
            ("lt", number, self.ahead), ("lt", self._own_chunk(number), self.slices.chunks(step))
        ):
            self.body.fetch(self.slices.c(step, self._own_chunk(number)), number)

    def _copy_partial_sum(self, other: Index, chunk: Index) -> None:
        """Start the copy of another member's partial sum; ``other``: its distance in the group."""
        b = self.b
        member = b.rem(b.add(self.member, other), self.members)
        b.copy(self.partial_sums, self._part(member, chunk), self.arrived, b.rem(other, 2))

    def _add_partial_sum(self, slices: Slices, chunk: Index, slot: Index) -> None:
        """Add a received partial sum to this core's own."""
        kind = self.roles.contraction.accumulator
        name = "arith.addf" if kind.startswith("f") else "arith.addi"
        c = (self.c_tile, chunk, "full")
        self.b.map(
            *self._extents(slices),
            [c, (self.arrived, slot, "full")],
            [c],
            lambda both: [Node(name, kind, tuple(both))],
        )
