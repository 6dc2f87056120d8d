"""Emitter of contraction kernels: the tiles, and the parts of all loops over blocks of C.

Strided DMA loads blocks from the tensors' own layout, so transposes, windows (im2col) and
broadcasts need no copy. A core accumulates a block of C over all of k, applies the epilogue and
stores it. ``Schedule.depth`` decides how the blocks follow one another: in nested loops
(``nested_loops``), or in steps that load the blocks of the next one (``panel_loop``).
"""

from __future__ import annotations

from ftm_backend.ir.linalg.function import Operand
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices, TileBody
from ftm_backend.midend.lowering.gemm.panel_operands import PanelOperands
from ftm_backend.midend.lowering.gemm.panel_step import PanelSlices, PanelStep
from ftm_backend.midend.lowering.gemm.reduction_epilogue import ReductionEpilogue
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles

__all__ = ["ContractionEmitter"]

Sides = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, int]]
"""The axes of the rows and of the columns of a stored block, and its largest extents."""


class ContractionEmitter:
    """Emits the function body of a kernel at the insertion point of ``b``."""

    def __init__(self, kernel: Kernel, roles: OperandRoles, b: TileBuilder) -> None:
        """Declare the tiles and the core's part of the work."""
        assert roles.plan is not None, "an empty result is not computed"
        self.b, self.kernel, self.roles = b, kernel, roles
        self.form, self.plan = roles.form, roles.plan
        self.blocks = BlockTransfers(b, self.form.extents)
        self._divide()
        self._declare()

    def build(self) -> None:
        """Emit everything."""
        raise NotImplementedError

    # --- what the loops decide

    def _divide(self) -> None:
        """Set the core's part of the work."""

    def _gsm_part(self) -> tuple[Index, int]:
        """Return which part of GSM has this core's chunks of A, and the number of such parts."""
        return 0, 1

    def _epilogue_slots(self) -> tuple[int, int]:
        """Return the slots of the epilogue: for tiles that it loads, and that it computes."""
        return 1, 1

    def _result_slots(self) -> int:
        """Return the slots of chunks of C that are transposed before they are stored."""
        return 2

    # --- tiles

    def _declare(self) -> None:
        b, plan, form, roles = self.b, self.plan, self.form, self.roles
        m, n, accumulator = plan.m.elements, plan.n.elements, roles.contraction.accumulator
        self.slices = PanelSlices(self.blocks, roles)
        self.has_products = 0 not in form.sizes(form.k)
        if self.has_products:
            part = self._gsm_part() if plan.a_space == "gsm" else (0, 1)
            self.operands = PanelOperands(self.blocks, roles, self.slices, part)
        self.c_tile = b.tile(accumulator, m, n, "am", plan.chunks * plan.c_buffers)
        sides, max_extents = self._sides()
        self.c_result = self.c_tile
        if plan.transpose_c:
            self.c_result = b.tile(accumulator, *max_extents, "am", self._result_slots())
        epilogue = roles.epilogue
        self.body = TileBody(
            self.blocks,
            *sides,
            max_extents,
            epilogue.operands,
            [(output.element, output.stores) for output in epilogue.outputs],
            roles.access,
            {id(epilogue.product): self.c_result},
            *self._epilogue_slots(),
        )
        if roles.sums:
            self.body.after_store = ReductionEpilogue(self.blocks, roles).emit

    def _sides(self) -> Sides:
        plan, form = self.plan, self.form
        m, n = plan.m.elements, plan.n.elements
        if self.roles.col2im is not None:
            return self.roles.col2im.sides(), self.roles.col2im.max_extents(plan.m, plan.n)
        return ((form.n, form.m), (n, m)) if plan.transpose_c else ((form.m, form.n), (m, n))

    # --- parts of a loop

    def _initialize_c(self, slices: Slices, slot: Index) -> bool:
        """Initialize a chunk of C; return False if the product may overwrite it."""
        b, form, init = self.b, self.form, self.roles.contraction.init
        if isinstance(init, Operand):
            access = self.roles.access(init.index)
            self.blocks.load(init.value, access, self.c_tile, slot, slices, form.m, form.n)
            return True
        if self.roles.contraction.starts_at_zero and self.has_products:
            return False
        b.map(*self._extents(slices), [], [(self.c_tile, slot, "full")], lambda _: [init])
        return True

    def _extents(self, slices: Slices) -> tuple[Index, Index]:
        """Return the rows and columns of the chunk of C at ``slices``."""
        return self.blocks.count(self.form.m, slices), self.blocks.count(self.form.n, slices)

    def _product(
        self, step: PanelStep, chunk: Index, slots: tuple[Index, Index], slices: Slices, acc: bool
    ) -> None:
        """Emit the step's product for one chunk.

        Args:
            step: The step.
            chunk: The chunk.
            slots: Slots of B and of C.
            slices: Position of the chunk, if A is read as windows.
            acc: Whether to accumulate.
        """
        b, plan, (b_slot, c_slot) = self.b, self.plan, slots
        operands, c = self.operands, self.c_tile
        a, a_slot, b_tile = operands.a_tile, operands.a_slot(step, chunk), operands.b_tile
        operands.run_a_prologue(step, chunk)
        if operands.box is not None:
            reads = operands.box.reads(a, slices | self.slices.k(step), len(self.form.m))
            b.mm_windows(a, a_slot, *reads, b_tile, b_slot, c, c_slot, acc=acc)
            return
        flags = {"trans_a": plan.trans_a, "trans_b": plan.b_layout == "dot"}
        b.mm(a, a_slot, b_tile, b_slot, c, c_slot, acc=acc, **flags)

    def _transform_c(self, slices: Slices, slot: Index, result: Index) -> None:
        """Transpose the chunk of C at ``slices``, or apply col2im to it."""
        b, col2im = self.b, self.roles.col2im
        if col2im is not None:
            operands = col2im.instruction(self.blocks, slices)
            b.fold(self.c_tile, slot, *operands, self.c_result, result)
        else:
            b.transpose(self.c_tile, slot, self.c_result, result)
