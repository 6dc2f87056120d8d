"""Lowering of contraction kernels: matrix products, convolutions and gradients, with epilogues.

Each core executes this loop nest::

    for each batch entry, tile of the outer loop, tile of the inner loop:
        for each block of k:  C += A . B        # A from SM, B from AM
        apply the epilogue, and store C

Strided DMA loads operand tiles from the tensors' own layout, so transposes, windows (im2col) and
broadcasts need no copy. The schedule determines which tiles stay resident and which loop is split
among cores. ``PanelLoop`` replaces this nest on machines whose DMA overlaps compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ftm_backend.ir.linalg.function import Operand, Statement
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices, TileBody
from ftm_backend.midend.lowering.gemm.deferred_epilogue import DeferredEpilogue
from ftm_backend.midend.lowering.gemm.epilogue import can_fuse_epilogue
from ftm_backend.midend.lowering.gemm.panel_loop import PanelLoop
from ftm_backend.midend.lowering.gemm.split_k import SplitKPanels
from ftm_backend.midend.schedule.gemm.contraction import contraction_index, match
from ftm_backend.midend.schedule.gemm.contraction_schedule import (
    OperandRoles,
    schedule,
    schedule_with_prologue,
    with_schedule,
)
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling import GemmTiling, TileCut, pitch
from ftm_backend.symbolic import statically_known_equal
from ftm_backend.target.presets import MachineParameters

__all__ = [
    "can_fuse_epilogue",
    "lower",
    "lower_with_prologue",
    "lower_with_sums",
    "match",
    "planned",
]


def planned(
    statements: Sequence[Statement], machine: MachineParameters
) -> tuple[bool, Schedule | None]:
    """Return whether a single core is fastest, and the schedule for all cores otherwise."""
    roles = schedule(statements, machine)
    if roles.plan is None or one_core(roles.plan):
        return True, None
    chosen = Schedule(roles.swapped, roles.plan)
    return False, chosen if chosen.is_constant else None


def one_core(plan: PanelSchedule | GemmTiling) -> bool:
    """Return whether a plan uses a single core."""
    return plan.cores == 1 if isinstance(plan, PanelSchedule) else plan.split == "none"


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel is not a contraction with a fusible epilogue, or does not fit the
            scratchpads.
    """
    machine = kernel.available_machine if kernel.machine.uses_panels else kernel.machine
    roles = (
        schedule(kernel.aligned, machine)
        if kernel.schedule is None
        else with_schedule(kernel.aligned, machine, kernel.schedule)
    )
    if isinstance(roles.plan, PanelSchedule):
        _panels(roles.plan)(kernel, roles, b).build()
    elif roles.plan is not None:
        _Nest(kernel, roles, b).build()


def lower_with_sums(kernel: Kernel, b: TileBuilder) -> None:
    """Emit a contraction with fused row sums.

    Raises:
        ValueError: The sums do not match the product's blocks.
    """
    sums = tuple(kernel.statements[len(kernel.aligned) :])
    roles = replace(schedule(kernel.aligned, kernel.machine, len(sums)), sums=sums)
    if not isinstance(roles.plan, PanelSchedule):
        raise ValueError(f"{kernel.name}: its product has no panels")
    (DeferredEpilogue if roles.plan.deferred_chunks else PanelLoop)(kernel, roles, b).build()


def lower_with_prologue(kernel: Kernel, b: TileBuilder) -> None:
    """Emit a contraction with a fused prologue: the first statements compute an operand.

    Raises:
        ValueError: They do not, or the blocks do not fit the scratchpads.
    """
    roles = schedule_with_prologue(
        kernel.aligned, kernel.statements[: contraction_index(kernel.statements)], kernel.machine
    )
    if roles is None:
        raise ValueError(f"{kernel.name}: its first statements compute no operand of its product")
    assert isinstance(roles.plan, PanelSchedule), "only panel schedules have prologues"
    _panels(roles.plan)(kernel, roles, b).build()


def _panels(plan: PanelSchedule) -> type[PanelLoop]:
    """Return the class that emits a plan's panels."""
    return (
        SplitKPanels
        if plan.k_groups > 1
        else DeferredEpilogue
        if plan.deferred_chunks
        else PanelLoop
    )


class _Nest:
    """The loop nest of one kernel."""

    def __init__(self, kernel: Kernel, roles: OperandRoles, b: TileBuilder) -> None:
        assert isinstance(roles.plan, GemmTiling)
        self.kernel, self.b, self.roles = kernel, b, roles
        self.form, self.plan = roles.form, roles.plan
        self.blocks = BlockTransfers(b, self.form.extents)
        plan, form, epilogue = self.plan, self.form, roles.epilogue
        self.outer, self.inner = (plan.m, plan.n) if plan.m_outer else (plan.n, plan.m)
        self.k_blocks = 0 if 0 in form.sizes(form.k) else plan.k.blocks
        resident = {
            "outer": (plan.outer_resident, self.k_blocks),
            "inner": (plan.inner_resident, self.k_blocks * self.inner.blocks),
        }
        a_side, b_side = ("outer", "inner") if plan.m_outer else ("inner", "outer")
        dtype = roles.a.value.dtype
        if self.k_blocks:
            self.a_tile = self._ring(dtype, plan.m, plan.k, plan.trans_a, "sm", resident[a_side])
            self.b_tile = self._ring(dtype, plan.k, plan.n, plan.trans_b, "am", resident[b_side])
        self.c_tile = b.tile(roles.contraction.accumulator, plan.m.elements, plan.n.elements)
        self.body = TileBody(
            self.blocks,
            form.m,
            form.n,
            (plan.m.elements, plan.n.elements),
            epilogue.operands,
            [(output.element, output.stores) for output in epilogue.outputs],
            roles.access,
            {id(epilogue.product): self.c_tile},
        )

    def _ring(
        self,
        dtype: str,
        rows: TileCut,
        columns: TileCut,
        transposed: bool,
        space: str,
        resident: tuple[bool, int],
    ) -> Any:
        first, second = (columns, rows) if transposed else (rows, columns)
        # A tile that each iteration loads gets one slot; the pass ``multi-buffer`` adds more.
        depth = resident[1] if resident[0] else 1
        return self.b.tile(dtype, first.elements, pitch(second.elements, dtype), space, depth)

    # --- loops

    def build(self) -> None:
        """Emit the whole nest, on all cores or guarded for core 0."""
        if self.plan.split == "none" and not self.kernel.one_core:
            with self.b.if_(self.b.compare("eq", self.b.core_id(), 0)):
                self._batches()
        else:
            self._batches()

    def _range(self, name: str, blocks: int) -> tuple[Index, Index]:
        return core_share(self.b, self.kernel, blocks) if self.plan.split == name else (0, blocks)

    def _group(self, is_m: bool) -> tuple[int, ...]:
        return self.form.m if is_m else self.form.n

    def _batches(self) -> None:
        b, form, plan, blocks = self.b, self.form, self.plan, self.blocks
        inner_range = self._range("inner", self.inner.blocks)
        outer_range = self._range("outer", self.outer.blocks)
        inner_access = form.accesses[1 if plan.m_outer else 0]
        once = plan.inner_resident and not any(inner_access.coeffs[axis] for axis in form.batch)
        if once:
            self._fill_inner({}, inner_range)
        with b.for_(*self._range("batch", prod(form.sizes(form.batch)))) as batch:
            entry = blocks.index_slices(form.batch, batch)
            if plan.inner_resident and not once:
                self._fill_inner(entry, inner_range)
            with b.for_(*outer_range) as outer:
                slices = entry | blocks.block_slices(self._group(plan.m_outer), self.outer, outer)
                if plan.outer_resident and self.k_blocks:
                    with b.for_(0, self.k_blocks) as k:
                        self._load(plan.m_outer, slices | blocks.block_slices(form.k, plan.k, k), k)
                with b.for_(*inner_range) as inner:
                    self._tile(
                        slices
                        | blocks.block_slices(self._group(not plan.m_outer), self.inner, inner),
                        inner,
                    )

    def _fill_inner(self, entry: Slices, numbers: tuple[Index, Index]) -> None:
        """Load this core's part of the inner operand, which stays resident."""
        b, side = self.b, not self.plan.m_outer
        if not self.k_blocks:
            return
        with b.for_(*numbers) as inner:
            slices = entry | self.blocks.block_slices(self._group(side), self.inner, inner)
            with b.for_(0, self.k_blocks) as k:
                slot = b.add(b.mul(inner, self.k_blocks), k)
                self._load(
                    side, slices | self.blocks.block_slices(self.form.k, self.plan.k, k), slot
                )

    def _tile(self, slices: Slices, inner: Index) -> None:
        """Emit one tile of C."""
        has_start = self._start(slices)
        if self.k_blocks:
            self._accumulate(slices, inner, 0, has_start)
            if not statically_known_equal(self.k_blocks, 1):
                with self.b.for_(1, self.k_blocks) as k:
                    self._accumulate(slices, inner, k, True)
        self.body.build(slices)

    def _start(self, slices: Slices) -> bool:
        """Initialize the C tile; return False if the product may overwrite it."""
        b, form, contraction = self.b, self.form, self.roles.contraction
        init = contraction.init
        if isinstance(init, Operand):
            self.blocks.load(
                init.value, self.roles.access(init.index), self.c_tile, 0, slices, form.m, form.n
            )
            return True
        if contraction.starts_at_zero and self.k_blocks:
            return False

        b.map(
            self.blocks.count(form.m, slices),
            self.blocks.count(form.n, slices),
            [],
            [(self.c_tile, 0, "full")],
            lambda _: [init],
        )
        return True

    def _accumulate(self, slices: Slices, inner: Index, k: Index, acc: bool) -> None:
        b, plan = self.b, self.plan
        slices = slices | self.blocks.block_slices(self.form.k, plan.k, k)
        outer_slot = k if plan.outer_resident else 0
        inner_slot = b.add(b.mul(inner, self.k_blocks), k) if plan.inner_resident else 0
        if not plan.outer_resident:
            self._load(plan.m_outer, slices, outer_slot)
        if not plan.inner_resident:
            self._load(not plan.m_outer, slices, inner_slot)
        a_slot, b_slot = (outer_slot, inner_slot) if plan.m_outer else (inner_slot, outer_slot)
        b.mm(
            self.a_tile,
            a_slot,
            self.b_tile,
            b_slot,
            self.c_tile,
            0,
            acc=acc,
            trans_a=plan.trans_a,
            trans_b=plan.trans_b,
        )

    def _load(self, is_a: bool, slices: Slices, slot: Index) -> None:
        """Load the tile of A or of B at ``slices``."""
        form, plan, roles = self.form, self.plan, self.roles
        if is_a:
            rows, columns, transposed = form.m, form.k, plan.trans_a
            operand, access, tile = roles.a, form.accesses[0], self.a_tile
        else:
            rows, columns, transposed = form.k, form.n, plan.trans_b
            operand, access, tile = roles.b, form.accesses[1], self.b_tile
        if transposed:
            rows, columns = columns, rows
        self.blocks.load(operand.value, access, tile, slot, slices, rows, columns)
