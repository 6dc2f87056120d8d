"""Lowering of a convolution's fused backward: dX, dW and the weights' update in one kernel.

See ``schedule.gemm.conv_backward_plan`` for the formulas. G, the gradient of the result, is the
same for all cores and stays in GSM. A step handles a block of filters for the core's current
channels:

1. start the loads of the next step;
2. multiply G, transposed, with windows of X: a block of dW;
3. multiply the block of W with G: a partial sum of dX;
4. run the epilogue of dW (the update of W).

After the last filters, col2im sums the windows of dX, which is then stored.
"""

from __future__ import annotations

from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices, TileBody
from ftm_backend.midend.lowering.gemm.im2col_loads import WindowBox
from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import tile_extents
from ftm_backend.midend.schedule.gemm.conv_backward_plan import (
    ConvBackward,
    ConvBackwardPlan,
    match_conv_backward,
    plan_conv_backward,
)
from ftm_backend.target.element_types import ACCUMULATORS

__all__ = ["lower"]


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The statements are not such a pair of gradients, or do not fit the scratchpads.
    """
    pattern = match_conv_backward(kernel.statements, kernel.machine)
    plan = None if pattern is None else plan_conv_backward(pattern, kernel.machine)
    if pattern is None or plan is None:
        raise ValueError(
            f"the gradients of kernel {kernel.name} are not made by one kernel"
            f" on machine {kernel.machine.name!r}"
        )
    _Builder(kernel, pattern, plan, b).build()


class _Builder:
    def __init__(
        self, kernel: Kernel, pattern: ConvBackward, plan: ConvBackwardPlan, b: TileBuilder
    ) -> None:
        self.kernel, self.pattern, self.plan, self.b = kernel, pattern, plan, b
        self.dw, self.form = pattern.dw, pattern.dw.form
        self.blocks = BlockTransfers(b, self.form.extents)
        self.dx_blocks = BlockTransfers(b, pattern.dx_form.extents)
        self.core, self.cores = kernel.core(b)
        self.low, self.high = core_share(b, kernel, pattern.channels)
        geometry = col2im.roles_of([pattern.dx]).col2im
        assert geometry is not None, "a transposed convolution has a col2im"
        self.col2im = geometry
        self._declare()

    def _declare(self) -> None:
        b, pattern, plan, form = self.b, self.pattern, self.plan, self.form
        dtype, accumulator = pattern.dtype, ACCUMULATORS[pattern.dtype]
        rows, filters, k = plan.m.elements, plan.n.elements, pattern.columns
        self.pool = b.tile(dtype, filters, k, "gsm", plan.n.blocks)
        self.loaded = b.tile(dtype, filters, k, "am", 2)
        self.transposed = b.tile(dtype, k, filters)
        self.box = (
            WindowBox(self.blocks, self.dw.windows, (*form.m, *form.k)) if self.dw.windows else None
        )
        sides = (k, rows) if plan.trans_a else (rows, k)
        if self.box is not None:
            sides = self.box.max_extents(
                (*tile_extents(form.sizes(form.m), plan.m), *form.sizes(form.k))
            )
        owners = self.kernel.machine.cores if plan.a_space == "gsm" else 1
        self.a_tile = b.tile(dtype, *sides, plan.a_space, 2 * owners)
        self.a_first = b.mul(self.core, 2) if owners > 1 else 0
        self.product = b.tile(accumulator, rows, filters)
        self.result = b.tile(accumulator, filters, rows, "am", 2)
        self.sums = b.tile(accumulator, rows, k)
        self.image = b.tile(accumulator, *self.col2im.max_extents(plan.m, self.pattern.all_windows))
        epilogue = self.dw.epilogue
        self.body = TileBody(
            self.blocks,
            form.n,
            form.m,
            (filters, rows),
            epilogue.operands,
            [(output.element, output.stores) for output in epilogue.outputs],
            self.dw.access,
            {id(epilogue.product): self.result},
            2,
            2,
        )
        (self.weight,) = (
            tile for operand, _, tile in self.body.reads if operand is self.pattern.weight
        )

    def build(self) -> None:
        """Emit the whole sequence of steps."""
        b, filters = self.b, self.plan.n.blocks
        if not self.kernel.one_core:
            b.barrier()  # other cores may still read what an earlier kernel left in GSM
        with b.for_(self.core, filters, self.cores) as number:
            slices = self._filters(number) | self._columns()
            self.blocks.load(
                self.dw.b.value,
                self.form.accesses[1],
                self.pool,
                number,
                slices,
                self.form.n,
                self.form.k,
            )
        if not self.kernel.one_core:
            b.barrier()
        blocks = b.div(
            b.add(b.sub(self.high, self.low), self.plan.channels - 1), self.plan.channels
        )
        steps = b.mul(blocks, filters)
        with b.where(("lt", 0, steps)):
            self._fetch(0)
        with b.for_(0, steps) as step:
            following = b.add(step, 1)
            with b.where(("lt", following, steps)):
                self._fetch(following)
            self._step(step)

    # --- positions

    def _channels(self, step: Index) -> tuple[Index, Index]:
        """Return the block's first channel and its number of channels.

        The last block of a core may be smaller.
        """
        b = self.b
        first = b.add(self.low, b.mul(b.div(step, self.plan.n.blocks), self.plan.channels))
        return first, b.min(self.plan.channels, b.sub(self.high, first))

    def _filters(self, number: Index) -> Slices:
        return self.blocks.block_slices(self.form.n, self.plan.n, number)

    def _columns(self) -> Slices:
        return {axis: (0, self.form.extents[axis]) for axis in self.form.k}

    def _slices(self, step: Index) -> Slices:
        b, (outer, *inside) = self.b, self.form.m
        each = self.form.extents[outer] // self.pattern.channels
        first, count = self._channels(step)
        rows: Slices = {outer: (b.mul(first, each), b.mul(count, each))} | {
            axis: (0, self.form.extents[axis]) for axis in inside
        }
        return rows | self._filters(self.b.rem(step, self.plan.n.blocks)) | self._columns()

    def _a_slot(self, step: Index) -> Index:
        b = self.b
        return b.add(self.a_first, b.rem(b.div(step, self.plan.n.blocks), 2))

    # --- steps

    def _fetch(self, step: Index) -> None:
        """Start the loads of a step."""
        b, form, a = self.b, self.form, self.dw.a.value
        slices, slot, number = self._slices(step), b.rem(step, 2), b.rem(step, self.plan.n.blocks)
        with b.where(("eq", number, 0)):
            if self.box is not None:
                self.box.load(a, form.accesses[0], self.a_tile, self._a_slot(step), slices)
            else:
                sides = (form.k, form.m) if self.plan.trans_a else (form.m, form.k)
                self.blocks.load(
                    a, form.accesses[0], self.a_tile, self._a_slot(step), slices, *sides
                )
        b.copy(self.pool, number, self.loaded, slot)
        self.body.fetch(slices, slot)

    def _step(self, step: Index) -> None:
        b, last = self.b, self.plan.n.blocks - 1
        slices, slot, number = self._slices(step), b.rem(step, 2), b.rem(step, self.plan.n.blocks)
        b.transpose(self.loaded, slot, self.transposed, 0)
        if self.box is not None:
            reads = self.box.reads(self.a_tile, slices, len(self.form.m))
            b.mm_windows(
                self.a_tile, self._a_slot(step), *reads, self.transposed, 0, self.product, 0
            )
        else:
            b.mm(
                self.a_tile,
                self._a_slot(step),
                self.transposed,
                0,
                self.product,
                0,
                trans_a=self.plan.trans_a,
            )
        with b.where(("eq", number, 0)):
            b.mm(self.weight, slot, self.loaded, slot, self.sums, 0, trans_a=True)
        if last:
            with b.where(("lt", 0, number)):
                b.mm(self.weight, slot, self.loaded, slot, self.sums, 0, acc=True, trans_a=True)
        b.transpose(self.product, 0, self.result, slot)
        self.body.finish(slices, slot, slot, slot)
        with b.where(("eq", number, last)):
            self._store(step)

    def _store(self, step: Index) -> None:
        """Apply col2im to dX of the block's channels, and store the result."""
        pattern, form = self.pattern, self.pattern.dx_form
        channel, *taps = form.m
        slices: Slices = (
            {channel: self._channels(step)}
            | {axis: (0, form.extents[axis]) for axis in taps}
            | self.col2im.block_slices(self.dx_blocks, self.pattern.all_windows, 0)
        )
        self.b.fold(self.sums, 0, *self.col2im.instruction(self.dx_blocks, slices), self.image, 0)
        (result,) = pattern.dx.results
        stores = dict.fromkeys(store.index for store in result.stores)
        accesses = dict(zip(stores, form.accesses[3:], strict=True))
        for store in result.stores:
            access = accesses[store.index]
            self.dx_blocks.store(
                self.image, 0, result.value.dtype, store, access, slices, *self.col2im.sides()
            )
