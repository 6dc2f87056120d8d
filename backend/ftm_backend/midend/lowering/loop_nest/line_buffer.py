"""Lowering of pooling with a line buffer; see ``schedule.loop_nest.line_buffer_plan``.

It is a nest kernel with other loads and stores::

    DLD     planes x run                 contiguous in memory
    TRANS   run x planes                 the line buffer: a row per element of the feature map
    DCW     window x (windows, planes)   elements of the windows
    maps                                 as in every nest
    DCW     windows x planes
    TRANS   planes x windows
    DST                                  contiguous in memory

Fused sums of the result (``plane_sums``) are computed before the store.
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
from ftm_backend.midend.lowering.loop_nest.plane_sums import LineBufferSums, split_off_sums
from ftm_backend.midend.lowering.loop_nest.reductions import ReductionForm
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import LineBufferPlan, plan_line_buffer
from ftm_backend.midend.schedule.loop_nest.merged_axes import AxisPosition, TileAxis

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
    plan = plan_line_buffer(kernel, consecutive_planes=bool(sums))
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
        self.line_buffer = plan
        self.sums = LineBufferSums(self, kernel.statements[-1], sums)

    def build(self) -> None:
        """Emit the whole kernel."""
        self.sums.prepare()
        super().build()

    def _emit_level(self, depth: int) -> None:
        if depth != self.sums.levels:
            super()._emit_level(depth)
            return
        self.sums.begin()
        super()._emit_level(depth)
        self.sums.end()

    def load(
        self,
        operand: Operand,
        position: AxisPosition,
        rows: bool,
        columns: bool,
        tile: TileDecl | None = None,
    ) -> TileDecl:
        """Load a line buffer of the operand, and copy the windows into ``tile`` or a new one."""
        b, value, planes = self.b, operand.value, self.line_buffer.planes
        buffer, border = self.source(value)
        tile = self.tile(value.dtype, rows, columns) if tile is None else tile
        run: Index = 1
        for axis in (*self.plan.rows, *self.line_buffer.window_columns):
            if axis in position.steps:
                run = b.add(run, b.mul(b.sub(self.count[axis], 1), position.steps[axis]))
        step, most, pitch = position.steps.get(planes), self.line_buffer.run(position), 1
        if step is None:
            buffer_tile = b.tile(value.dtype, 1, most)
            b.load(buffer, self.address(position), buffer_tile, 0, [1, run], [1, 1], 1, border)
        elif position.steps.keys() == {planes}:  # one element per plane
            buffer_tile = b.tile(value.dtype, 1, self.line_buffer.width)
            b.load(
                buffer,
                self.address(position),
                buffer_tile,
                0,
                [1, self.count[planes]],
                [1, step],
                1,
                border,
            )
        else:
            pitch = self.line_buffer.width
            arrived, buffer_tile = (
                b.tile(value.dtype, pitch, most),
                b.tile(value.dtype, most, pitch),
            )
            b.load(
                buffer,
                self.address(position),
                arrived,
                0,
                [self.count[planes], run],
                [step, 1],
                1,
                border,
            )
            b.transpose(arrived, 0, buffer_tile, 0)
            self.sums.arrived[operand.value, position.const, frozenset(position.steps.items())] = (
                arrived
            )
        inside = AxisPosition(
            0,
            {a: s * pitch for a, s in position.steps.items()}
            | ({planes: 1} if step is not None else {}),
        )
        b.copy_windows(buffer_tile, 0, *self.dims(inside, rows, columns), tile, 0)
        return tile

    def store(
        self, statement: Statement, result: FunctionResult, tile: TileDecl, form: ReductionForm
    ) -> None:
        """Emit all stores of a result's tile, whose columns are windows and planes."""
        b, planes, dtype = self.b, self.line_buffer.planes, result.value.dtype
        steps: dict[TileAxis, Index] = {}  # strides in the tile
        for group, step in (
            (self.line_buffer.window_columns, self.count[planes]),
            (self.plan.rows if form.rows else [], self.plan.column_count()),
        ):
            for axis in reversed(group):
                steps[axis] = step
                step = b.mul(step, self.count[axis])
        most = prod(self.plan.cut.get(a, a.extent) for a in steps)
        for store in result.stores:
            position = self.axes.position(statement, store.index)
            memory_order = sorted(steps, key=lambda a: -position.steps.get(a, 0))  # in memory order
            interleaved, transposed = (
                b.tile(dtype, most, self.line_buffer.width),
                b.tile(dtype, self.line_buffer.width, most),
            )
            inside = [(self.count[a], steps[a]) for a in memory_order] + [(self.count[planes], 1)]
            b.copy_windows(
                tile,
                0,
                [n for n, _ in inside],
                [s for _, s in inside],
                len(memory_order),
                interleaved,
                0,
            )
            b.transpose(interleaved, 0, transposed, 0)
            if self.sums.statements and statement is self.sums.last:
                self.sums.add(transposed)
            dims = [
                (self.count[planes], position.steps[planes]),
                *self._dims(position, memory_order),
            ]
            buffer = b.buffer(store.symbol, dtype, store.elements)
            b.store(
                transposed,
                0,
                buffer,
                self.address(position),
                [n for n, _ in dims],
                [s for _, s in dims],
                1,
            )
