"""Lowers contraction kernels: matrix products, convolutions and their gradients, with what follows them.

The nest, on each core: for each batch entry, for each tile of the outer loop, for each tile of the inner loop:
accumulate over k in a C tile (A from SM, B from AM), run the epilogue on it, store it.  Operand tiles are
fetched by strided DMA straight from where the tensors lie, so transposes, windows (im2col) and broadcasts cost
no pass over memory; the schedule says which tiles stay in scratchpad and which loop the cores share.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

from ftm_backend.codegen.builder import Index, TileBuilder
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend import bodies
from ftm_backend.midend.affine import Affine
from ftm_backend.midend.affine import volume as elements_of
from ftm_backend.midend.contraction_epilogue import can_fuse_epilogue
from ftm_backend.midend.contraction_form import match
from ftm_backend.midend.contraction_schedule import Schedule, schedule
from ftm_backend.midend.kernel import KernelView, Node, Operand, Statement, core_share
from ftm_backend.midend.tiling import Cut

__all__ = ["can_fuse_epilogue", "lower", "match", "one_core"]

Places = dict[int, tuple[Index, Index]]
"""For each axis where a tile starts and how many steps it takes."""


def one_core(statements: Sequence[Statement], machine: MachineParameters) -> bool:
    """Whether the model says that sharing this kernel among cores does not pay."""
    found = schedule(statements, machine).plan
    return found is None or found.split == "none"


def lower(kernel: KernelView, b: TileBuilder) -> None:
    """Builds the kernel's function body at the insertion point.

    Raises:
        ValueError: the kernel is not a contraction with a fusible epilogue, or does not fit the scratchpads.
    """
    chosen = schedule(kernel.statements, kernel.machine)
    if chosen.plan is not None:
        _Nest(kernel, chosen, b).build()


class _Nest:
    """The loop nest of one kernel."""

    def __init__(self, kernel: KernelView, chosen: Schedule, b: TileBuilder) -> None:
        assert chosen.plan is not None
        self.kernel, self.b, self.chosen = kernel, b, chosen
        self.form, self.plan = chosen.form, chosen.plan
        self.one_core = kernel.one_core
        self.empty_sum = 0 in self.form.sizes(self.form.k)
        plan = self.plan
        self.outer, self.inner = (plan.m, plan.n) if plan.m_outer else (plan.n, plan.m)
        self.k_blocks = 0 if self.empty_sum else plan.k.blocks
        resident = {"outer": (plan.outer_resident, self.k_blocks),
                    "inner": (plan.inner_resident, self.k_blocks * self.inner.blocks)}
        a_side, b_side = ("outer", "inner") if plan.m_outer else ("inner", "outer")
        dtype = chosen.a.value.dtype
        if not self.empty_sum:
            self.a_tile = self._ring(dtype, plan.m, plan.k, plan.trans_a, "sm", resident[a_side])
            self.b_tile = self._ring(dtype, plan.k, plan.n, plan.trans_b, "am", resident[b_side])
        self.c_tile = b.tile(chosen.contraction.accumulator, plan.m.elements, plan.n.elements, "am")
        self.epilogue = _TileEpilogue(self)

    def _ring(self, dtype: str, rows: Cut, columns: Cut, turned: bool, space: str, resident: tuple[bool, int]) -> Any:
        first, second = (columns, rows) if turned else (rows, columns)
        # A tile that is fetched anew in the loop has one slot here: the multi-buffer pass gives it more.
        depth = resident[1] if resident[0] else 1
        return self.b.tile(dtype, first.elements, second.elements, space, depth)

    # --- loops ------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Builds the whole nest, on all cores or guarded for core 0."""
        if self.plan.split == "none" and not self.one_core:
            with self.b.if_(self.b.compare("eq", self.b.core_id(), 0)):
                self._batches()
        else:
            self._batches()

    def _range(self, name: str, blocks: int) -> tuple[Index, Index]:
        return core_share(self.b, self.kernel, blocks) if self.plan.split == name else (0, blocks)

    def _batches(self) -> None:
        b, form, plan = self.b, self.form, self.plan
        batch_cut = Cut(0, 1, 1, prod(form.sizes(form.batch)))
        inner_range = self._range("inner", self.inner.blocks)
        outer_range = self._range("outer", self.outer.blocks)
        inner_access = form.accesses[1 if plan.m_outer else 0]
        once = plan.inner_resident and not any(inner_access.coeffs[axis] for axis in form.batch)
        if once:
            self._fill_inner({}, inner_range)
        with b.for_(*self._range("batch", batch_cut.blocks)) as batch:
            entry = self._steps(form.batch, batch)
            if plan.inner_resident and not once:
                self._fill_inner(entry, inner_range)
            with b.for_(*outer_range) as outer:
                places = entry | self._place(self._axes(plan.m_outer), self.outer, outer)
                if plan.outer_resident and self.k_blocks:
                    with b.for_(0, self.k_blocks) as k:
                        self._load(plan.m_outer, places | self._place(form.k, plan.k, k), k)
                with b.for_(*inner_range) as inner:
                    self._tile(places | self._place(self._axes(not plan.m_outer), self.inner, inner), inner)

    def _fill_inner(self, entry: Places, blocks: tuple[Index, Index]) -> None:
        b, side = self.b, not self.plan.m_outer
        if not self.k_blocks:
            return
        with b.for_(*blocks) as inner:
            places = entry | self._place(self._axes(side), self.inner, inner)
            with b.for_(0, self.k_blocks) as k:
                slot = b.add(b.mul(inner, self.k_blocks), k)
                self._load(side, places | self._place(self.form.k, self.plan.k, k), slot)

    def _tile(self, places: Places, inner: Index) -> None:
        """One tile of C."""
        has_start = self._start(places)
        if self.k_blocks:
            self._accumulate(places, inner, 0, has_start)
            if self.k_blocks > 1:
                with self.b.for_(1, self.k_blocks) as k:
                    self._accumulate(places, inner, k, True)
        self.epilogue.build(places)

    def _start(self, places: Places) -> bool:
        """Puts the initial value into the C tile; False when the matrix product may overwrite it."""
        init = self.chosen.contraction.statement.results[0].init
        b = self.b
        if isinstance(init, Operand):
            self.load_block(init, self.chosen.access(init.index), self.c_tile, 0, places, self.form.m, self.form.n)
            return True
        if self.chosen.contraction.starts_at_zero and not self.empty_sum:
            return False
        b.map(self.count(self.form.m, places), self.count(self.form.n, places), [], [(self.c_tile, 0, "full")],
              lambda _: bodies.emit([init], self.scalar))
        return True

    def _accumulate(self, places: Places, inner: Index, k: Index, acc: bool) -> None:
        b, plan = self.b, self.plan
        places = places | self._place(self.form.k, plan.k, k)
        outer_slot = k if plan.outer_resident else 0
        inner_slot = b.add(b.mul(inner, self.k_blocks), k) if plan.inner_resident else 0
        if not plan.outer_resident:
            self._load(plan.m_outer, places, outer_slot)
        if not plan.inner_resident:
            self._load(not plan.m_outer, places, inner_slot)
        a_slot, b_slot = (outer_slot, inner_slot) if plan.m_outer else (inner_slot, outer_slot)
        b.mm(self.a_tile, a_slot, self.b_tile, b_slot, self.c_tile, 0, acc=acc,
             trans_a=plan.trans_a, trans_b=plan.trans_b)

    def _load(self, is_a: bool, places: Places, slot: Index) -> None:
        """Fetches the tile of A or of B at ``places``."""
        form, plan = self.form, self.plan
        if is_a:
            rows, columns, turned = form.m, form.k, plan.trans_a
            operand, access, tile = self.chosen.a, form.accesses[0], self.a_tile
        else:
            rows, columns, turned = form.k, form.n, plan.trans_b
            operand, access, tile = self.chosen.b, form.accesses[1], self.b_tile
        if turned:
            rows, columns = columns, rows
        self.load_block(operand, access, tile, slot, places, rows, columns)

    # --- places and blocks ------------------------------------------------------------------------------

    def _axes(self, is_m: bool) -> tuple[int, ...]:
        return self.form.m if is_m else self.form.n

    def _steps(self, group: Sequence[int], number: Index) -> Places:
        """Step ``number`` of the axes of ``group`` walked in row-major order."""
        b, places = self.b, {}
        for position in range(len(group) - 1, -1, -1):
            extent = self.form.extents[group[position]]
            places[group[position]] = (number if position == 0 else b.rem(number, extent), 1)
            number = b.div(number, extent)
        return places

    def _place(self, group: Sequence[int], cut: Cut, block: Index) -> Places:
        """Where tile ``block`` of a group lies."""
        if not group:
            return {}
        b, axis = self.b, group[cut.dim]
        extent = self.form.extents[axis]
        pieces = ceil(extent / cut.size)
        outside, piece = (b.div(block, pieces), b.rem(block, pieces)) if cut.dim else (0, block)
        start = b.mul(piece, cut.size)
        count = cut.size if extent % cut.size == 0 else b.min(cut.size, b.sub(extent, start))
        places = self._steps(group[: cut.dim], outside)
        places[axis] = (start, count)
        for inside in group[cut.dim + 1 :]:
            places[inside] = (0, self.form.extents[inside])
        return places

    def address(self, access: Affine, places: Places) -> Index:
        """Flat element at which the block of ``access`` at ``places`` starts."""
        at: Index = access.const
        for axis, (start, _) in places.items():
            at = self.b.add(at, self.b.mul(start, access.coeffs[axis]))
        return at

    def count(self, group: Sequence[int], places: Places) -> Index:
        """How many rows or columns a tile has at ``places``."""
        total: Index = 1
        for axis in group:
            total = self.b.mul(total, places[axis][1])
        return total

    def _dims(self, access: Affine, group: Sequence[int], places: Places) -> list[tuple[Index, int]]:
        """Extents and strides of one side of a block; neighbours that lie as one are merged."""
        dims: list[tuple[Index, int]] = []
        for axis in group:
            extent, stride = places[axis][1], access.coeffs[axis]
            if isinstance(extent, int) and extent == 1:
                continue
            if dims and isinstance(extent, int) and dims[-1][1] == stride * extent:
                dims[-1] = (self.b.mul(dims[-1][0], extent), stride)
            else:
                dims.append((extent, stride))
        return dims or [(1, 1)]

    def block(self, access: Affine, places: Places, rows: Sequence[int], columns: Sequence[int]) -> dict[str, Any]:
        """Offset, extents, strides and row dimensions of a transfer."""
        row_dims, column_dims = self._dims(access, rows, places), self._dims(access, columns, places)
        return {
            "offset": self.address(access, places), "row_dims": len(row_dims),
            "extents": [extent for extent, _ in row_dims + column_dims],
            "strides": [stride for _, stride in row_dims + column_dims],
        }

    def load_block(self, operand: Operand, access: Affine, tile: Any, slot: Index, places: Places,
                   rows: Sequence[int], columns: Sequence[int]) -> None:
        """DMA of the block of a DDR tensor at ``places`` into a tile."""
        value = operand.value
        assert value.symbol is not None
        buffer = self.b.buffer(value.symbol, value.dtype, elements_of(value.shape))
        self.b.load(buffer, tile=tile, slot=slot, **self.block(access, places, rows, columns))

    def scalar(self, node: Node) -> Any:
        """The value of a runtime scalar in a body, None for other nodes."""
        return self.b.scalar(node.payload, node.dtype) if node.op == "scalar" else None


class _TileEpilogue:
    """What happens to a finished tile of C."""

    def __init__(self, nest: _Nest) -> None:
        self.nest = nest
        epilogue, b, plan = nest.chosen.epilogue, nest.b, nest.plan
        self.reads = []
        extents = {"full": (plan.m.elements, plan.n.elements), "row": (1, plan.n.elements),
                   "col": (plan.m.elements, 1), "one": (1, 1)}
        for operand in epilogue.operands:
            access = nest.chosen.access(operand.index)
            word = self._word(access)
            self.reads.append((operand, access, word, b.tile(operand.value.dtype, *extents[word], "am")))
        self.computed = [o for o in epilogue.outputs if o.element.op != "carry"]
        self.tiles = [b.tile(o.element.dtype, plan.m.elements, plan.n.elements, "am") for o in self.computed]

    def _word(self, access: Affine) -> str:
        down = any(access.coeffs[axis] for axis in self.nest.form.m)
        along = any(access.coeffs[axis] for axis in self.nest.form.n)
        return {(True, True): "full", (False, True): "row", (True, False): "col", (False, False): "one"}[down, along]

    def build(self, places: Places) -> None:
        """Loads what the body reads, runs it and stores the results of the tile at ``places``."""
        nest, form = self.nest, self.nest.form
        for operand, access, word, tile in self.reads:
            rows = form.m if word in ("full", "col") else ()
            columns = form.n if word in ("full", "row") else ()
            nest.load_block(operand, access, tile, 0, places, rows, columns)
        if self.computed:
            self._map(places)
        tiles = iter(self.tiles)
        for output in nest.chosen.epilogue.outputs:
            tile = nest.c_tile if output.element.op == "carry" else next(tiles)
            for store in output.stores:
                buffer = nest.b.buffer(store.symbol, output.element.dtype, store.elements)
                access = nest.chosen.access(store.index)
                nest.b.store(tile, 0, buffer, **nest.block(access, places, form.m, form.n))

    def _map(self, places: Places) -> None:
        nest, b = self.nest, self.nest.b
        uses_c = any(node.op == "carry" for node in bodies.walk(o.element for o in self.computed))
        ins = [(nest.c_tile, 0, "full")] if uses_c else []
        ins += [(tile, 0, word) for _, _, word, tile in self.reads]

        def body(arguments: Sequence[Any]) -> list[Any]:
            elements = list(arguments)
            c = elements.pop(0) if uses_c else None
            reads = {(id(o.value), o.index): value for (o, *_), value in zip(self.reads, elements, strict=True)}

            def leaf(node: Node) -> Any:
                if node.op == "carry":
                    return c
                if node.op == "in":
                    return reads[id(node.payload.value), node.payload.index]
                if node.op == "index":
                    return self._position(node.payload, places)
                return nest.scalar(node)

            return bodies.emit([o.element for o in self.computed], leaf)

        rows, columns = nest.count(nest.form.m, places), nest.count(nest.form.n, places)
        b.map(rows, columns, ins, [(tile, 0, "full") for tile in self.tiles], body)

    def _position(self, index: Affine, places: Places) -> Any:
        nest, form = self.nest, self.nest.form
        access = nest.chosen.access(index)
        steps = [access.coeffs[group[-1]] if group else 0 for group in (form.m, form.n)]
        return nest.b.position(nest.address(access, places), *steps)
