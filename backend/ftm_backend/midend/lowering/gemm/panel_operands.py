"""Operands of a contraction: on-chip tiles of blocks of A and B, their loads and fused prologues.

Each operand has a ring of slots: with depth 2, the next block is loaded while the current one is
multiplied. The ring of a *resident* operand holds all blocks that it keeps. A prologue (such as
batch norm and ReLU) computes a block on chip from what was loaded.

Reads the schedule and the operands' access functions. Declares the tiles and
emits loads, copies, maps and transpositions. The loops decide when: see ``emitter``.
"""

from __future__ import annotations

from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, TileBody
from ftm_backend.midend.lowering.gemm.gsm_shared_blocks import GsmSharedBlocks
from ftm_backend.midend.lowering.gemm.im2col_loads import WindowBox
from ftm_backend.midend.lowering.gemm.im2col_prologue import PrologueBox
from ftm_backend.midend.lowering.gemm.panel_step import PanelSlices, PanelStep
from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import tile_extents
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import pitch

__all__ = ["PanelOperands"]


class _Ring:
    """Slots of an operand's blocks.

    Attributes:
        resident: Whether the operand's blocks stay.
        slots: With depth 2, two blocks, or all resident blocks of k and at least one that is being
            loaded. With depth 1 one block (pass ``multi-buffer`` adds slots), or all resident ones.
    """

    def __init__(
        self, b: TileBuilder, plan: Schedule, is_outer: bool, resident: bool, blocks: int
    ) -> None:
        """Count the slots.

        Args:
            b: Builds the slots' numbers.
            plan: The schedule.
            is_outer: Whether it is the outer loop's operand.
            resident: Whether its blocks stay.
            blocks: Number of its blocks, without k.
        """
        self.b, self.plan, self.is_outer, self.resident = b, plan, is_outer, resident
        if plan.depth > 1:
            self.slots = max(2, plan.k_steps) if resident else 2
        else:
            self.slots = plan.k_steps * (1 if is_outer else blocks) if resident else 1

    @property
    def kept_slots(self) -> int:
        """Slots of blocks that are computed from what was loaded: no block is being loaded."""
        return self.slots if self.resident else 1

    def slot(self, step: PanelStep) -> Index:
        """Return the slot of the step's block."""
        b, blocks = self.b, self.plan.k_steps
        if self.plan.depth == 1:
            if not self.resident:
                return 0
            return step.k if self.is_outer else b.add(b.mul(step.inner, blocks), step.k)
        if not self.resident:
            return b.rem(step.number, 2)
        return b.rem(step.outer, 2) if blocks == 1 else step.k


class PanelOperands:
    """Tiles of A and B."""

    def __init__(
        self,
        blocks: BlockTransfers,
        roles: OperandRoles,
        slices: PanelSlices,
        gsm_part: tuple[Index, int],
    ) -> None:
        """Declare the tiles.

        Args:
            blocks: Transfers of the kernel.
            roles: The contraction's operands and schedule.
            slices: Slices of a step's blocks.
            gsm_part: Which part of A's tile has this core's chunks, and the number of such parts;
                (0, 1) if A is not in GSM.
        """
        assert roles.plan is not None, "an empty result is not computed"
        self.b, self.blocks, self.roles, self.slices = blocks.b, blocks, roles, slices
        self.form, self.plan = roles.form, roles.plan
        plan = self.plan
        self.a_ring = _Ring(self.b, plan, plan.m_outer, plan.keeps_a, plan.m.blocks)
        self.b_ring = _Ring(self.b, plan, not plan.m_outer, plan.keeps_b, plan.n.blocks)
        self._declare_a(*gsm_part)
        self._declare_b()

    # --- tiles

    def _declare_a(self, owner: Index, owners: int) -> None:
        b, plan, form, roles = self.b, self.plan, self.form, self.roles
        m, k = plan.m.elements, plan.k.elements
        slots = self.a_ring.slots * plan.chunks
        self.box = (
            WindowBox(self.blocks, roles.windows, (*form.m, *form.k)) if roles.windows else None
        )
        rows, columns = (k, m) if plan.trans_a else (m, k)
        if self.box is not None:
            rows, columns = self.box.max_extents(
                (
                    *tile_extents(form.sizes(form.m), plan.m),
                    *tile_extents(form.sizes(form.k), plan.k),
                )
            )
        dtype = roles.a.value.dtype
        columns = self._pitch(columns, dtype)
        self.a_tile = b.tile(dtype, rows, columns, plan.a_space, slots * owners)
        self.a_prologue: PrologueBox | None = None
        if (
            self.box is not None
            and roles.prologue is not None
            and roles.prologue.operand is roles.a
        ):
            self.a_prologue = PrologueBox(
                self.box, roles.prologue, roles.access, self.a_tile, 2 * plan.chunks
            )
        self.a_first = b.mul(owner, slots) if owners > 1 else 0

    def _declare_b(self) -> None:
        b, plan, roles = self.b, self.plan, self.roles
        dtype, n, k = roles.a.value.dtype, plan.n.elements, plan.k.elements
        transposed = plan.b_layout != "plain"
        is_b = roles.prologue is not None and self.a_prologue is None
        self.b_prologue = self._b_prologue_body() if is_b else None
        if self.b_prologue is not None:
            (self.b_loaded,) = self.b_prologue.tiles.values()
        else:
            arrives = 2 if plan.b_layout == "transposed" else self.b_ring.slots
            rows, columns = (n, k) if transposed else (k, n)
            self.b_loaded = b.tile(dtype, rows, self._pitch(columns, dtype), "am", arrives)
        self.b_tile = self.b_loaded
        if plan.b_layout == "transposed":
            self.b_tile = b.tile(dtype, k, n, "am", self.b_ring.kept_slots)
        if plan.share == "b" or plan.b_in_gsm:
            self.shared_b = GsmSharedBlocks(self.blocks, roles)

    def _b_prologue_body(self) -> TileBody:
        """Return the prologue that computes a block of B in place of the loaded one."""
        plan, form, prologue = self.plan, self.form, self.roles.prologue
        assert prologue is not None
        n, k = plan.n.elements, plan.k.elements
        sides, max_extents = (
            ((form.n, form.k), (n, k)) if plan.b_layout != "plain" else ((form.k, form.n), (k, n))
        )
        slots = self.b_ring.kept_slots if plan.b_layout != "transposed" else 1
        return TileBody(
            self.blocks,
            *sides,
            max_extents,
            prologue.operands,
            [(prologue.element, ())],
            self.roles.access,
            {},
            2,
            slots,
        )

    def _pitch(self, columns: int, dtype: str) -> int:
        """Return the leading dimension of a tile with so many columns."""
        return pitch(columns, dtype) if self.plan.depth == 1 else columns

    def a_slot(self, step: PanelStep, chunk: Index) -> Index:
        """Return the slot of a chunk of A."""
        b = self.b
        block = b.mul(self.a_ring.slot(step), self.plan.chunks)
        return b.add(self.a_first, b.add(block, chunk))

    def _a_prologue_slot(self, step: PanelStep, chunk: Index) -> Index:
        """Return the slot of the prologue's other operands for a chunk."""
        return self.b.add(self.b.mul(self.b.rem(step.number, 2), self.plan.chunks), chunk)

    def b_slot(self, step: PanelStep) -> Index:
        """Return the slot of B for the step's products."""
        is_prepared = self.plan.b_layout == "transposed" or self.b_prologue is not None
        return 0 if is_prepared and not self.b_ring.resident else self.b_ring.slot(step)

    # --- loads

    def load_a(self, step: PanelStep, first: Index, stride: Index) -> None:
        """Start the loads of every ``stride``-th chunk of A, from ``first`` on."""
        form, plan, roles = self.form, self.plan, self.roles
        sides = (form.k, form.m) if plan.trans_a else (form.m, form.k)
        with self.b.for_(first, self.slices.chunks(step), stride) as chunk:
            chunk_slices, slot = self.slices.a(step, chunk), self.a_slot(step, chunk)
            if self.a_prologue is not None:
                self.a_prologue.fetch(chunk_slices, slot, self._a_prologue_slot(step, chunk))
            elif self.box is not None:
                self.box.load(roles.a.value, form.accesses[0], self.a_tile, slot, chunk_slices)
            else:
                self.blocks.load(
                    roles.a.value, form.accesses[0], self.a_tile, slot, chunk_slices, *sides
                )

    def load_b(self, step: PanelStep) -> None:
        """Start the load of B, or its copy from GSM."""
        form, plan = self.form, self.plan
        slices = self.slices.batched_b(step)
        sides = (form.n, form.k) if plan.b_layout != "plain" else (form.k, form.n)
        if self.b_prologue is not None:
            self.b_prologue.fetch(slices, self.b.rem(step.number, 2))
            return
        slot = (
            self.b.rem(step.number, 2) if plan.b_layout == "transposed" else self.b_ring.slot(step)
        )
        if plan.share == "b" or plan.b_in_gsm:
            gsm_slot = (
                self.shared_b.slot(step.column, step.k)
                if plan.b_in_gsm
                else self.b.rem(step.number, 2)
            )
            self.shared_b.copy_to(gsm_slot, slices, self.b_loaded, slot)
            return
        self.blocks.load(self.roles.b.value, form.accesses[1], self.b_loaded, slot, slices, *sides)

    def load_shared_b(self, step: PanelStep) -> None:
        """Start the load of B into GSM, from which all cores copy it."""
        b, plan = self.b, self.plan
        slot = self.shared_b.slot(step.column, step.k) if plan.b_in_gsm else b.rem(step.number, 2)
        self.shared_b.load(slot, self.slices.shared_b(step))

    # --- prologues

    def run_a_prologue(self, step: PanelStep, chunk: Index) -> None:
        """Emit A's prologue for a chunk, unless A is resident already."""
        if self.a_prologue is not None:
            with self.b.where(
                *(
                    [("eq", step.inner, 0)]
                    if self.a_ring.resident and not isinstance(step.inner, int)
                    else []
                )
            ):
                self.a_prologue.emit(
                    self.slices.a(step, chunk),
                    self.a_slot(step, chunk),
                    self._a_prologue_slot(step, chunk),
                )

    def prepare_b(self, step: PanelStep) -> None:
        """Emit B's prologue and transposition for the step, unless B is resident already."""
        b, plan = self.b, self.plan
        if plan.b_layout == "transposed" or self.b_prologue is not None:
            slot = self.b_ring.slot(step) if self.b_ring.resident else 0
            loaded = b.rem(step.number, 2)
            with b.where(
                *(
                    [("eq", step.inner, 0)]
                    if self.b_ring.resident and not isinstance(step.inner, int)
                    else []
                )
            ):
                if self.b_prologue is not None:
                    slices = self.slices.batched_b(step)
                    self.b_prologue.finish(
                        slices, 0, 0 if plan.b_layout == "transposed" else slot, loaded
                    )
                    loaded = 0
                if plan.b_layout == "transposed":
                    b.transpose(self.b_loaded, loaded, self.b_tile, slot)
