"""Lowering of contractions with a ``PanelSchedule``, for machines whose DMA overlaps compute.

Each core executes a sequence of *steps*, one per panel of C and block of k. A step

1. starts the loads of the next step's blocks of A and B,
2. multiplies its own blocks,
3. at the last block of k, runs the epilogue and stores the panel.

If cores share an operand in GSM, a barrier ends each step: the next step's blocks have then been
loaded, and no core reads the blocks that the step after it overwrites.

The program is correct for any number of cores. The plan's grid is an upper bound of the number of
core groups.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ftm_backend.ir.linalg.function import Operand
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Places, TileBody
from ftm_backend.midend.lowering.gemm.gsm_shared_blocks import GsmSharedBlocks
from ftm_backend.midend.lowering.gemm.prologue_window_box import PrologueBox
from ftm_backend.midend.lowering.gemm.reduction_epilogue import ReductionEpilogue
from ftm_backend.midend.lowering.gemm.window_box import WindowBox
from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import tile_extents
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule

__all__ = ["PanelLoop", "PanelStep"]


class PanelStep(NamedTuple):
    """Indices of a step.

    Attributes:
        number: Position in the core's sequence.
        outer: Index of the outer loop.
        inner: Index of the inner loop.
        k: Block of k.
        row: Row panel.
        column: Block of columns.
    """

    number: Index
    outer: Index
    inner: Index
    k: Index
    row: Index
    column: Index


class _Range(NamedTuple):
    """This core's part of the row panels or column blocks; ``trips``: steps of all cores."""

    low: Index
    high: Index
    trips: Index


class PanelLoop:
    """Emits the function body of a kernel at the insertion point of ``b``."""

    def __init__(self, kernel: Kernel, chosen: OperandRoles, b: TileBuilder) -> None:
        """Declare the tiles and the core's part of the work."""
        assert isinstance(chosen.plan, PanelSchedule)
        self.b, self.kernel, self.chosen = b, kernel, chosen
        self.form, self.plan = chosen.form, chosen.plan
        self.blocks = BlockTransfers(b, self.form.extents)
        self.together = self.plan.share != "none"
        """Whether a barrier ends each step."""
        self.early = self.plan.chunks == 1 and not self.plan.deferred_chunks
        """Whether the epilogue's operands are loaded before a panel's last step.

        With several chunks, the multi-buffer pass adds slots instead.
        """
        self.rows = prod(self.form.sizes(self.form.batch)) * self.plan.panels
        self._divide()
        self._declare()

    # --- cores

    def _divide(self) -> None:
        """Set the grid of cores, limited to the number of cores at run time."""
        b, plan = self.b, self.plan
        core, cores = self.kernel.core(b)
        row_groups = b.min(plan.row_groups, cores)
        self.sharers = b.max(1, b.min(plan.column_groups, b.div(cores, row_groups)))
        self.group, self.member = b.div(core, self.sharers), b.rem(core, self.sharers)
        self.row_groups = row_groups
        self.row_range = self._range(self.rows, self.group, row_groups)
        self.column_range = self._range(plan.n.blocks, self.member, self.sharers)
        outer, inner = self._loops(self.row_range, self.column_range)
        self.inner_trips = b.max(1, inner.trips)
        self.steps = b.mul(b.mul(outer.trips, inner.trips), plan.k.blocks)

    def _range(self, total: int, number: Index, parts: Index) -> _Range:
        b = self.b
        low, high = (
            b.min(b.div(b.mul(at, total), parts), total) for at in (number, b.add(number, 1))
        )
        # With barriers, all cores execute as many steps as the busiest one.
        together = (
            b.div(b.add(b.sub(parts, 1), total), parts) if self.together else b.sub(high, low)
        )
        return _Range(low, high, together)

    def _loops(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        return (rows, columns) if self.plan.m_outer else (columns, rows)

    def _at(self, number: Index) -> PanelStep:
        """Return step ``number`` of this core."""
        b, blocks = self.b, self.plan.k.blocks
        panel = b.div(number, blocks)
        outer, inner = (
            (b.div(panel, self.inner_trips), b.rem(panel, self.inner_trips))
            if number != 0
            else (0, 0)
        )
        row, column = self._loops(outer, inner)
        return PanelStep(
            number,
            outer,
            inner,
            b.rem(number, blocks),
            b.add(self.row_range.low, row),
            b.add(self.column_range.low, column),
        )

    def _has_row(self, step: PanelStep) -> list[tuple[str, Index, Index]]:
        return [("lt", step.row, self.row_range.high)] if self.together else []

    def _has_column(self, step: PanelStep) -> list[tuple[str, Index, Index]]:
        return [("lt", step.column, self.column_range.high)] if self.together else []

    # --- tiles

    def _declare(self) -> None:
        b, plan, form, chosen = self.b, self.plan, self.form, self.chosen
        dtype = chosen.a.value.dtype
        m, n, k = plan.m.elements, plan.n.elements, plan.k.elements
        self.a_kept, self.b_kept = (plan.keep and plan.m_outer, plan.keep and not plan.m_outer)
        self.a_slots = self._depth(self.a_kept) * plan.chunks
        owner, owners = self._owner() if plan.a_space == "gsm" else (0, 1)
        self.box = (
            WindowBox(self.blocks, chosen.windows, (*form.m, *form.k)) if chosen.windows else None
        )
        rows, columns = (k, m) if plan.trans_a else (m, k)
        if self.box is not None:
            rows, columns = self.box.most(
                (
                    *tile_extents(form.sizes(form.m), plan.m),
                    *tile_extents(form.sizes(form.k), plan.k),
                )
            )
        self.a_tile = b.tile(dtype, rows, columns, plan.a_space, self.a_slots * owners)
        self.computed_a: PrologueBox | None = None
        if self.box is not None and chosen.factor is not None and chosen.factor.operand is chosen.a:
            self.computed_a = PrologueBox(
                self.box, chosen.factor, chosen.access, self.a_tile, 2 * plan.chunks
            )
        self.a_first = b.mul(owner, self.a_slots) if owners > 1 else 0
        turned = plan.b_layout != "plain"
        is_b = chosen.factor is not None and self.computed_a is None
        self.factor = self._computed_factor() if is_b else None
        if self.factor is not None:
            (self.b_arrival,) = self.factor.tiles.values()
        else:
            arrives = 2 if plan.b_layout == "turned" else self._depth(self.b_kept)
            self.b_arrival = b.tile(dtype, *((n, k) if turned else (k, n)), "am", arrives)
        self.b_tile = self.b_arrival
        if plan.b_layout == "turned":
            self.b_tile = b.tile(dtype, k, n, "am", self._depth(True) if self.b_kept else 1)
        if plan.share == "b" or plan.b_in_gsm:
            self.pool = GsmSharedBlocks(self.blocks, chosen)
        accumulator = chosen.contraction.accumulator
        self.c_tile = b.tile(accumulator, m, n, "am", plan.chunks * plan.c_buffers)
        epilogue = chosen.epilogue
        sides, most = ((form.n, form.m), (n, m)) if plan.transpose_c else ((form.m, form.n), (m, n))
        if plan.interleave_c:
            between = form.interleaved_axis
            assert between is not None
            sides, most = (
                (tuple(k for k in form.n if k != between), (*form.m, between)),
                (n // 2, 2 * m),
            )
        if chosen.fold is not None:
            sides, most = chosen.fold.sides(), chosen.fold.most(plan.m, plan.n)
        self.c_result = (
            b.tile(accumulator, *most, "am", self._turned()) if plan.transpose_c else self.c_tile
        )
        self.body = TileBody(
            self.blocks,
            *sides,
            most,
            epilogue.operands,
            [(output.element, output.stores) for output in epilogue.outputs],
            chosen.access,
            {id(epilogue.product): self.c_result},
            *self._beside(),
        )

        if chosen.sums:
            self.body.behind = ReductionEpilogue(self.blocks, chosen).take

    def _owner(self) -> tuple[Index, int]:
        """Return which part of GSM has this core's chunks of A, and the number of such parts."""
        plan = self.plan
        if plan.share == "a":
            return self.group, plan.row_groups
        return self.b.add(
            self.b.mul(self.group, plan.column_groups), self.member
        ), plan.row_groups * plan.column_groups

    def _beside(self) -> tuple[int, int]:
        """Return the slots of the epilogue: for tiles that it loads, and that it computes."""
        plan = self.plan
        return (
            ((2 if plan.k.blocks > 1 else 1) * plan.deferred_chunks, plan.deferred_chunks)
            if plan.deferred_chunks
            else (1, 1)
        )

    def _turned(self) -> int:
        """Return the slots of transposed chunks of C."""
        return self.plan.deferred_chunks or 2

    def _computed_factor(self) -> TileBody:
        """Return the prologue that computes a block of B in place of the loaded one."""
        plan, form, factor = self.plan, self.form, self.chosen.factor
        assert factor is not None
        n, k = plan.n.elements, plan.k.elements
        sides, most = (
            ((form.n, form.k), (n, k)) if plan.b_layout != "plain" else ((form.k, form.n), (k, n))
        )
        slots = self._depth(True) if self.b_kept and plan.b_layout != "turned" else 1
        return TileBody(
            self.blocks,
            *sides,
            most,
            factor.operands,
            [(factor.element, ())],
            self.chosen.access,
            {},
            2,
            slots,
        )

    def _depth(self, kept: bool) -> int:
        """Return the slots of an operand's ring: all resident blocks of k, and one being loaded."""
        return max(2, self.plan.k.blocks) if kept else 2

    def _block(self, step: PanelStep, kept: bool) -> Index:
        """Return the slot of the step's block in that ring."""
        if not kept:
            return self.b.rem(step.number, 2)
        return self.b.rem(step.outer, 2) if self.plan.k.blocks == 1 else step.k

    def _a_slot(self, step: PanelStep, chunk: Index) -> Index:
        b = self.b
        block = b.mul(self._block(step, self.a_kept), self.plan.chunks)
        return b.add(self.a_first, b.add(block, chunk))

    # --- positions

    def _chunks(self, step: PanelStep) -> Index:
        """Return the number of chunks of the step's row panel."""
        b, plan = self.b, self.plan
        if plan.m.blocks % plan.chunks == 0:
            return plan.chunks
        return b.min(
            plan.chunks, b.sub(plan.m.blocks, b.mul(b.rem(step.row, plan.panels), plan.chunks))
        )

    def _entry(self, step: PanelStep) -> Places:
        return self.blocks.steps(self.form.batch, self.b.div(step.row, self.plan.panels))

    def _rows(self, step: PanelStep, chunk: Index) -> Places:
        b, plan = self.b, self.plan
        number = b.add(b.mul(b.rem(step.row, plan.panels), plan.chunks), chunk)
        return self.blocks.place(self.form.m, plan.m, number)

    def _columns(self, step: PanelStep) -> Places:
        if self.chosen.fold is not None:
            return self.chosen.fold.place(self.blocks, self.plan.n, step.column)
        return self.blocks.place(self.form.n, self.plan.n, step.column)

    def _depths(self, step: PanelStep) -> Places:
        return self.blocks.place(self.form.k, self.plan.k, step.k)

    # --- steps

    def build(self) -> None:
        """Emit the whole sequence."""
        b, plan = self.b, self.plan
        if (
            plan.a_space == "gsm" or plan.share == "b" or plan.b_in_gsm
        ) and not self.kernel.one_core:
            b.barrier()  # other cores may still read what an earlier kernel left in GSM
        if plan.b_in_gsm and not plan.fills_during_panel:
            self.pool.fill(*self.kernel.core(b))
            b.barrier()
        passing = plan.share == "b" or plan.fills_during_panel
        if passing:
            for ahead in (0, 1):
                self._pool(ahead)
            b.barrier()
        with self.b.where(
            *([] if self.together or isinstance(self.steps, int) else [("lt", 0, self.steps)])
        ):
            self._fetch(self._at(0))
        if self.together:
            b.barrier()
        with b.for_(0, self.steps) as number:
            step, following = self._at(number), self._at(b.add(number, 1))
            if plan.k.blocks == 1:
                self._expect(step)
            if not (isinstance(number, int) and isinstance(self.steps, int)):
                with self.b.where(("lt", following.number, self.steps)):
                    self._fetch(following)
            if plan.k.blocks > 1:
                self._expect(step)
            if passing:
                self._pool(b.add(number, 2))
            self._between(step)
            with self.b.where(*self._has_row(step), *self._has_column(step)):
                self._multiply(step)
            if self.together:
                self._meet(step)
        self._behind()

    def _expect(self, step: PanelStep) -> None:
        """Start the epilogue's loads for a panel of one chunk, before the next panel's loads."""
        k = self.plan.k.blocks
        if self.early and self.body.reads:
            with self.b.where(
                *([("eq", step.k, k - 2)] if k > 1 else []),
                *self._has_row(step),
                *self._has_column(step),
            ):
                self.body.fetch(self._c_places(step, 0))

    def _between(self, step: PanelStep) -> None:
        """Emit what a step does besides its own products; see ``deferred_epilogue``."""

    def _behind(self) -> None:
        """Emit what remains after the last step."""

    def _meet(self, step: PanelStep) -> None:
        """Emit the barrier at the end of a step.

        If A stays resident, a barrier is needed only while a panel of A is exchanged.
        """
        b = self.b
        if not self.a_kept or self.plan.share == "b":
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
            *(first if self.b_kept else []), *self._has_row(step), *self._has_column(step)
        ):
            self._fetch_b(step)
        with self.b.where(*(first if self.a_kept else []), *self._has_row(step)):
            self._fetch_a(step)

    def _fetch_a(self, step: PanelStep) -> None:
        form, plan, chosen = self.form, self.plan, self.chosen
        sides = (form.k, form.m) if plan.trans_a else (form.m, form.k)
        mine = (
            (self.member, self._chunks(step), self.sharers)
            if plan.share == "a"
            else (0, self._chunks(step), 1)
        )
        with self.b.for_(*mine) as chunk:
            here, slot = self._a_places(step, chunk), self._a_slot(step, chunk)
            if self.computed_a is not None:
                self.computed_a.fetch(here, slot, self._a_beside(step, chunk))
            elif self.box is not None:
                self.box.load(chosen.a.value, form.accesses[0], self.a_tile, slot, here)
            else:
                self.blocks.load(chosen.a.value, form.accesses[0], self.a_tile, slot, here, *sides)

    def _a_places(self, step: PanelStep, chunk: Index) -> Places:
        return self._entry(step) | self._depths(step) | self._rows(step, chunk)

    def _a_beside(self, step: PanelStep, chunk: Index) -> Index:
        """Return the slot of the prologue's other operands for a chunk."""
        return self.b.add(self.b.mul(self.b.rem(step.number, 2), self.plan.chunks), chunk)

    def _fetch_b(self, step: PanelStep) -> None:
        form, plan = self.form, self.plan
        places = self._entry(step) | self._columns(step) | self._depths(step)
        sides = (form.n, form.k) if plan.b_layout != "plain" else (form.k, form.n)
        if self.factor is not None:
            self.factor.fetch(places, self.b.rem(step.number, 2))
            return
        slot = (
            self.b.rem(step.number, 2)
            if plan.b_layout == "turned"
            else self._block(step, self.b_kept)
        )
        if plan.share == "b" or plan.b_in_gsm:
            waiting = (
                self.pool.slot(step.column, step.k) if plan.b_in_gsm else self.b.rem(step.number, 2)
            )
            self.pool.hand_on(waiting, places, self.b_arrival, slot)
            return
        self.blocks.load(
            self.chosen.b.value, form.accesses[1], self.b_arrival, slot, places, *sides
        )

    def _pool(self, number: Index) -> None:
        """Start the load of a step's block of B into GSM; the row groups alternate."""
        b, step = self.b, self._at(number)
        once = [("eq", step.inner, 0), *self._has_column(step)] if self.plan.b_in_gsm else []
        with b.where(
            ("eq", b.rem(number, self.row_groups), self.group), ("lt", number, self.steps), *once
        ):
            slot = self.pool.slot(step.column, step.k) if self.plan.b_in_gsm else b.rem(number, 2)
            self.pool.load(slot, self._columns(step) | self._depths(step))

    def _multiply(self, step: PanelStep) -> None:
        """Emit the step's products; at the last block of k, also the epilogue."""
        plan = self.plan
        self._make_b(step)
        last = plan.k.blocks - 1
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

    def _make_a(self, step: PanelStep, chunk: Index) -> None:
        """Emit A's prologue for a chunk, unless A is resident already."""
        if self.computed_a is not None:
            with self.b.where(
                *(
                    [("eq", step.inner, 0)]
                    if self.a_kept and not isinstance(step.inner, int)
                    else []
                )
            ):
                self.computed_a.make(
                    self._a_places(step, chunk),
                    self._a_slot(step, chunk),
                    self._a_beside(step, chunk),
                )

    def _make_b(self, step: PanelStep) -> None:
        """Emit B's prologue and transposition for the step, unless B is resident already."""
        b, plan = self.b, self.plan
        if plan.b_layout == "turned" or self.factor is not None:
            slot, arrived = self._block(step, True) if self.b_kept else 0, b.rem(step.number, 2)
            with b.where(
                *(
                    [("eq", step.inner, 0)]
                    if self.b_kept and not isinstance(step.inner, int)
                    else []
                )
            ):
                if self.factor is not None:
                    places = self._entry(step) | self._columns(step) | self._depths(step)
                    self.factor.finish(places, 0, 0 if plan.b_layout == "turned" else slot, arrived)
                    arrived = 0
                if plan.b_layout == "turned":
                    b.transpose(self.b_arrival, arrived, self.b_tile, slot)

    def _products(self, step: PanelStep, first: bool, last: bool) -> None:
        b, plan = self.b, self.plan
        b_slot, ring = self._b_slot(step), self._c_ring(step)
        with b.for_(0, self._chunks(step)) as chunk:
            c_slot = b.add(ring, chunk)
            places = self._c_places(step, chunk) if first or last or self.box is not None else {}
            started = self._start(places, c_slot) if first else True
            finished = last and not plan.deferred_chunks
            if finished and not self.early:
                self.body.fetch(places)  # overlaps the product
            self._product(step, chunk, (b_slot, c_slot), places, started)
            if finished:
                if plan.transpose_c:
                    self._turn(places, c_slot, b.rem(chunk, 2))
                self.body.finish(places, b.rem(chunk, 2) if plan.transpose_c else c_slot)

    def _b_slot(self, step: PanelStep) -> Index:
        """Return the slot of B for the step's products."""
        alone = not self.b_kept and (self.plan.b_layout == "turned" or self.factor is not None)
        return 0 if alone else self._block(step, self.b_kept)

    def _product(
        self, step: PanelStep, chunk: Index, slots: tuple[Index, Index], places: Places, acc: bool
    ) -> None:
        """Emit the step's product for one chunk.

        Args:
            step: The step.
            chunk: The chunk.
            slots: Slots of B and of C.
            places: Position of the chunk, if A is read as windows.
            acc: Whether to accumulate.
        """
        b, plan, (b_slot, c_slot) = self.b, self.plan, slots
        a, a_slot, factor, c = self.a_tile, self._a_slot(step, chunk), self.b_tile, self.c_tile
        self._make_a(step, chunk)
        if self.box is not None:
            reads = self.box.reads(a, places | self._depths(step), len(self.form.m))
            b.windows(a, a_slot, *reads, factor, b_slot, c, c_slot, acc=acc)
        else:
            b.mm(
                a,
                a_slot,
                factor,
                b_slot,
                c,
                c_slot,
                acc=acc,
                trans_a=plan.trans_a,
                trans_b=plan.b_layout == "dot",
            )

    def _turn(self, places: Places, slot: Index, result: Index) -> None:
        """Transpose the chunk of C at ``places``, or apply col2im to it."""
        b, fold = self.b, self.chosen.fold
        if fold is not None:
            b.fold(self.c_tile, slot, *fold.instruction(self.blocks, places), self.c_result, result)
        else:
            b.transpose(self.c_tile, slot, self.c_result, result, zipped=self.plan.interleave_c)

    def _c_ring(self, step: PanelStep) -> Index:
        """Return the slot of the panel's first chunk."""
        b, plan = self.b, self.plan
        return b.mul(b.rem(b.div(step.number, plan.k.blocks), plan.c_buffers), plan.chunks)

    def _c_places(self, step: PanelStep, chunk: Index) -> Places:
        return self._entry(step) | self._columns(step) | self._rows(step, chunk)

    def _start(self, places: Places, slot: Index) -> bool:
        """Initialize a chunk of C; return False if the product may overwrite it."""
        b, form, contraction = self.b, self.form, self.chosen.contraction
        init = contraction.init
        if isinstance(init, Operand):
            self.blocks.load(
                init.value,
                self.chosen.access(init.index),
                self.c_tile,
                slot,
                places,
                form.m,
                form.n,
            )
            return True
        if contraction.starts_at_zero:
            return False

        b.map(
            self.blocks.count(form.m, places),
            self.blocks.count(form.n, places),
            [],
            [(self.c_tile, slot, "full")],
            lambda _: [init],
        )
        return True
