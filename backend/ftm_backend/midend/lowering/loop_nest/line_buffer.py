"""Lowering of pooling with a line buffer; see ``schedule.loop_nest.line_buffer_plan``.

It is a nest kernel with other loads and stores::

    DLD     planes x run                 contiguous in memory
    TRANS   run x planes                 the line buffer: a row per element of the feature map
    DCW     window x (windows, planes)   elements of the windows
    maps                                 as in every nest
    DCW     windows x planes
    TRANS   planes x windows
    DST                                  contiguous in memory

Fused sums of the result (``line_buffer_sums``) are computed before the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ftm_backend.ir.linalg.function import FunctionResult, Operand, Statement
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.loop_nest.emit_loops import NestEmitter
from ftm_backend.midend.lowering.loop_nest.line_buffer_sums import LineBufferSums, split_off_sums
from ftm_backend.midend.lowering.loop_nest.reductions import ReductionForm
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import LineBufferPlan, plan_line_buffer
from ftm_backend.midend.schedule.loop_nest.tile_axes import AxisPosition, TileAxis

__all__ = ["lower", "lower_with_sums"]


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel is no window reduction, or another plan is cheaper.
    """
    _build(kernel, [], b)


def lower_with_sums(kernel: Kernel, b: TileBuilder) -> None:
    """Emit a kernel whose last statements sum its result.

    Raises:
        ValueError: As of `lower`, or the sums do not match the tiles.
    """
    statements, sums = split_off_sums(kernel.statements)
    _build(replace(kernel, statements=statements, domain=None), sums, b)


def _build(kernel: Kernel, sums: Sequence[Statement], b: TileBuilder) -> None:
    plan = plan_line_buffer(kernel, together=bool(sums))
    if plan is None:
        raise ValueError(f"{kernel.name}: no line buffer serves its windows")
    LineBufferEmitter(kernel, plan, sums, b).build()


class LineBufferEmitter(NestEmitter):
    """Emits one kernel at the insertion point."""

    def __init__(
        self, kernel: Kernel, plan: LineBufferPlan, sums: Sequence[Statement], b: TileBuilder
    ) -> None:
        """Set the plan and the fused sums."""
        super().__init__(kernel, plan.tiles, b)
        self.strips = plan
        self.sums = LineBufferSums(self, kernel.statements[-1], sums)

    def build(self) -> None:
        """Emit the whole kernel."""
        self.sums.prepare()
        super().build()

    def _nest(self, depth: int) -> None:
        if depth != self.sums.levels:
            super()._nest(depth)
            return
        self.sums.begin()
        super()._nest(depth)
        self.sums.end()

    def load(
        self,
        operand: Operand,
        place: AxisPosition,
        rows: bool,
        columns: bool,
        tile: TileDecl | None = None,
    ) -> TileDecl:
        """Load a line buffer of the operand, and copy the windows into ``tile`` or a new one."""
        b, value, planes = self.b, operand.value, self.strips.planes
        buffer, border = self.source(value)
        tile = self.tile(value.dtype, rows, columns) if tile is None else tile
        run: Index = 1
        for axis in (*self.plan.rows, *self.strips.across):
            if axis in place.steps:
                run = b.add(run, b.mul(b.sub(self.count[axis], 1), place.steps[axis]))
        step, most, pitch = place.steps.get(planes), self.strips.run(place), 1
        if step is None:
            strip = b.tile(value.dtype, 1, most)
            b.load(buffer, self.address(place), strip, 0, [1, run], [1, 1], 1, border)
        elif place.steps.keys() == {planes}:  # one element per plane
            strip = b.tile(value.dtype, 1, self.strips.width)
            b.load(
                buffer, self.address(place), strip, 0, [1, self.count[planes]], [1, step], 1, border
            )
        else:
            pitch = self.strips.width
            arrived, strip = b.tile(value.dtype, pitch, most), b.tile(value.dtype, most, pitch)
            b.load(
                buffer,
                self.address(place),
                arrived,
                0,
                [self.count[planes], run],
                [step, 1],
                1,
                border,
            )
            b.transpose(arrived, 0, strip, 0)
            self.sums.arrived[operand.value, place.const, frozenset(place.steps.items())] = arrived
        inside = AxisPosition(
            0,
            {a: s * pitch for a, s in place.steps.items()}
            | ({planes: 1} if step is not None else {}),
        )
        b.copy_windows(strip, 0, *self.dims(inside, rows, columns), tile, 0)
        return tile

    def store(
        self, statement: Statement, result: FunctionResult, tile: TileDecl, form: ReductionForm
    ) -> None:
        """Emit all stores of a result's tile, whose columns are windows and planes."""
        b, planes, dtype = self.b, self.strips.planes, result.value.dtype
        steps: dict[TileAxis, Index] = {}  # strides in the tile
        for group, step in (
            (self.strips.across, self.count[planes]),
            (self.plan.rows if form.rows else [], self.plan.column_count()),
        ):
            for axis in reversed(group):
                steps[axis] = step
                step = b.mul(step, self.count[axis])
        most = prod(self.plan.cut.get(a, a.extent) for a in steps)
        for store in result.stores:
            place = self.axes.place(statement, store.index)
            walked = sorted(steps, key=lambda a: -place.steps.get(a, 0))  # in memory order
            spread, turned = (
                b.tile(dtype, most, self.strips.width),
                b.tile(dtype, self.strips.width, most),
            )
            inside = [(self.count[a], steps[a]) for a in walked] + [(self.count[planes], 1)]
            b.copy_windows(
                tile, 0, [n for n, _ in inside], [s for _, s in inside], len(walked), spread, 0
            )
            b.transpose(spread, 0, turned, 0)
            if self.sums.statements and statement is self.sums.last:
                self.sums.add(turned)
            dims = [(self.count[planes], place.steps[planes]), *self._dims(place, walked)]
            buffer = b.buffer(store.symbol, dtype, store.elements)
            b.store(
                turned,
                0,
                buffer,
                self.address(place),
                [n for n, _ in dims],
                [s for _, s in dims],
                1,
            )
