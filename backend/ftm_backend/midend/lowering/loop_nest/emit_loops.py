"""Emits the loops, loads and stores of a nest kernel around the maps of its tiles.

The structure is::

    parts (if cores share a reduction)            # partial results; a barrier; a combining pass
      levels outside the accumulators             # with the loads that depend only on these
        initialize accumulators
        levels inside
          loads; one map per stage; stores
        finish and store accumulators
"""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import FunctionResult, Operand, Statement, Value
from ftm_backend.ir.tile.builder import BufferAddress, Index, PaddedDim, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.analysis.uniform_values import UniformValues
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.gemm.block_transfers import sides
from ftm_backend.midend.lowering.loop_nest import coalesced_transfers
from ftm_backend.midend.lowering.loop_nest.emit_maps import MapEmitter
from ftm_backend.midend.lowering.loop_nest.linalg_index import IndexPositions
from ftm_backend.midend.lowering.loop_nest.reductions import (
    ReductionForm,
    partial_results,
    reduction_form,
)
from ftm_backend.midend.schedule.loop_nest.map_stages import kept_values, stages_of
from ftm_backend.midend.schedule.loop_nest.merged_axes import AxisPosition, TileAxis
from ftm_backend.midend.schedule.loop_nest.tiling import NestTiling
from ftm_backend.symbolic import divides, guarded_equal


class NestEmitter:
    """Emits one nest kernel at the insertion point."""

    def __init__(self, kernel: Kernel, plan: NestTiling, b: TileBuilder):
        """Analyze the kernel's stages and reductions."""
        self.kernel, self.plan, self.b, self.axes = kernel, plan, b, plan.axes
        self.stages = stages_of(self.axes)
        self.kept = kept_values(self.axes, self.stages)
        self.forms: dict[Statement, ReductionForm] = {
            s: reduction_form(plan, s, stage.narrow)
            for stage in self.stages
            for s in stage.statements
        }
        self.base: dict[TileAxis, Index] = {}  # first element of the tile along each axis
        self.count: dict[TileAxis, Index] = {a: a.extent for a in self.axes.axes}
        # operand address, or value kept between stages: its tile
        self.tiles: dict[object, TileDecl] = {}
        self.accumulators: dict[FunctionResult, TileDecl] = {}
        self.partial: dict[FunctionResult, tuple[str, Index]] = {}
        self.uniforms = UniformValues(kernel.statements, b)
        self._ranges: dict[TileAxis, tuple[Index, Index]] = {}
        self._loads: dict[int, list[tuple[object, Operand, AxisPosition]]] = {}
        self.positions = IndexPositions(self)
        self._map = MapEmitter(self)

    def build(self) -> None:
        """Emit the whole kernel."""
        self.uniforms.compute()
        self.positions.prepare()
        self._schedule_loads()
        plan, b = self.plan, self.b
        if plan.parts:
            self._build_parts()
        elif plan.shared_level is not None:
            self._ranges[plan.shared_level.axis] = core_share(
                b, self.kernel, plan.shared_level.trip_count
            )
            self._emit_level(0)
        elif self.kernel.one_core:
            self._emit_level(0)
        else:
            with b.if_(b.compare("eq", b.core_id(), 0)):
                self._emit_level(0)

    # --- loops

    def _build_parts(self) -> None:
        plan, b = self.plan, self.b
        assert plan.shared_level is not None
        results = partial_results(plan)
        low, high = core_share(b, self.kernel, plan.parts)
        with b.for_(low, high) as part:
            trip_count = plan.shared_level.trip_count
            self._ranges[plan.shared_level.axis] = (
                b.div(b.mul(part, trip_count), plan.parts),
                b.div(b.mul(b.add(part, 1), trip_count), plan.parts),
            )
            for result, space in zip(results, self.kernel.workspaces, strict=True):
                self.partial[result] = (str(space.symbol), b.mul(part, volume(result.value.shape)))
            self._emit_level(0)
        b.barrier()
        for result, space in zip(results, self.kernel.workspaces, strict=True):
            self._combine(result, str(space.symbol))

    def _emit_level(self, depth: int) -> None:
        plan, b = self.plan, self.b
        if depth == plan.accumulator_depth:
            self._load_at(depth)
            self._map.start_accumulators()
        elif depth < plan.accumulator_depth or depth <= len(plan.levels):
            self._load_at(depth)
        if depth == len(plan.levels):
            self._emit_stages()
        else:
            level = plan.levels[depth]
            low, high = self._ranges.get(level.axis, (0, level.trip_count))
            with b.for_(low, high) as iteration:
                axis = level.axis
                self.base[axis] = b.mul(iteration, level.step)
                if divides(level.step, axis.extent):
                    self.count[axis] = level.step
                else:
                    self.count[axis] = b.min(level.step, b.sub(axis.extent, self.base[axis]))
                self._emit_level(depth + 1)
            self.base.pop(level.axis)
            self.count[level.axis] = level.axis.extent
        if depth == plan.accumulator_depth:
            self._map.finish_accumulators()

    def _emit_stages(self) -> None:
        for stage in self.stages:
            self._map.write(stage)

    # --- loads

    def key(self, statement: Statement, operand: Operand) -> tuple[object, AxisPosition]:
        """Return a key of the tile of an operand in DDR, and its address."""
        position = self.axes.position(statement, operand.index)
        return (operand.value, position.const, frozenset(position.steps.items())), position

    def _schedule_loads(self) -> None:
        """Hoist each load into the outermost loop that its address depends on."""
        seen = set()
        for s in self.kernel.statements:
            for operand in s.operands:
                if operand.value.producer in self.forms:
                    continue
                key, position = self.key(s, operand)
                if key in seen:
                    continue
                seen.add(key)
                self._loads.setdefault(self.plan.levels_around(position), []).append(
                    (key, operand, position)
                )

    def _load_at(self, depth: int) -> None:
        for key, operand, position in self._loads.get(depth, ()):
            rows, columns = self.dependence(position)
            self.tiles[key] = self.load(operand, position, rows, columns)

    def dependence(self, position: AxisPosition) -> tuple[bool, bool]:
        """Whether an address depends on rows, and whether on columns."""
        return (
            any(a in position.steps for a in self.plan.rows),
            any(a in position.steps for a in self.plan.columns),
        )

    def load(
        self,
        operand: Operand,
        position: AxisPosition,
        rows: bool,
        columns: bool,
        tile: TileDecl | None = None,
    ) -> TileDecl:
        """Load an operand at the current indices into ``tile`` or a new one."""
        value = operand.value
        if tile is None:
            tile = self.tile(value.dtype, rows, columns)
        buffer, border = self.source(value)
        if (
            rows
            and columns
            and not border
            and coalesced_transfers.is_profitable(self, position, value.dtype)
        ):
            coalesced_transfers.load(self, buffer, position, tile)
            return tile
        extents, strides, row_dims = self.dims(position, rows, columns)
        self.b.load(buffer, self.address(position), tile, 0, extents, strides, row_dims, border)
        return tile

    def source(self, value: Value) -> tuple[BufferAddress, list[PaddedDim]]:
        """Return the buffer of a value, and the border around it."""
        inside = value.in_memory
        assert inside.symbol is not None, "what another kernel makes is in memory"
        return self.b.buffer(inside.symbol, inside.dtype, volume(inside.shape)), sides(value)

    # --- tiles and addresses

    def tile(self, dtype: str, rows: bool, columns: bool) -> TileDecl:
        """Declare a tile with all rows or one, and all columns or one."""
        return self.b.tile(
            dtype, self.plan.row_count() if rows else 1, self.plan.column_count() if columns else 1
        )

    def extent(self, rows: bool) -> Index:
        """Return the current number of rows or columns of the tile."""
        total: Index = 1
        for axis in self.plan.rows if rows else self.plan.columns:
            total = self.b.mul(total, self.count[axis])
        return total

    def address(self, position: AxisPosition) -> Index:
        """Return the address of the tile's first element."""
        total: Index = position.const
        for axis, step in position.steps.items():
            if axis in self.base:
                total = self.b.add(total, self.b.mul(self.base[axis], step))
        return total

    def dims(
        self, position: AxisPosition, rows: bool, columns: bool
    ) -> tuple[list[Index], list[int], int]:
        """Return extents and strides of a transfer, and its number of row dimensions."""
        row_part = self._dims(position, self.plan.rows if rows else [])
        column_part = self._dims(position, self.plan.columns if columns else [])
        both = row_part + column_part
        return [n for n, _ in both], [s for _, s in both], len(row_part)

    def _dims(self, position: AxisPosition, group: list[TileAxis]) -> list[tuple[Index, int]]:
        """Return (extent, stride) of a group of axes, with neighbours of a common stride merged."""
        dims: list[tuple[Index, int]] = []
        for axis in group:
            step = position.steps.get(axis, 0)
            if (
                dims
                and guarded_equal(dims[-1][1], step * axis.extent)
                and axis not in self.plan.cut
            ):
                dims[-1] = (self.b.mul(dims[-1][0], axis.extent), step)
            else:
                dims.append((self.count[axis], step))
        return dims or [(1, 1)]

    # --- stores

    def store(
        self, statement: Statement, result: FunctionResult, tile: TileDecl, form: ReductionForm
    ) -> None:
        """Emit all stores of a result's tile."""
        for store in result.stores:
            position = self.axes.position(statement, store.index)
            buffer = self.b.buffer(store.symbol, result.value.dtype, store.elements)
            if (
                form.rows
                and form.columns
                and coalesced_transfers.is_profitable(self, position, result.value.dtype)
            ):
                coalesced_transfers.store(self, tile, buffer, position)
                continue
            extents, strides, row_dims = self.dims(position, form.rows, form.columns)
            self.b.store(tile, 0, buffer, self.address(position), extents, strides, row_dims)

    def store_partial(
        self, statement: Statement, result: FunctionResult, tile: TileDecl, form: ReductionForm
    ) -> None:
        """Store this part's partial result into the workspace."""
        symbol, offset = self.partial[result]
        position = self.axes.position(statement, result.index)
        extents, strides, row_dims = self.dims(position, form.rows, form.columns)
        buffer = self.b.buffer(
            symbol, result.value.dtype, self.plan.parts * volume(result.value.shape)
        )
        self.b.store(
            tile, 0, buffer, self.b.add(offset, self.address(position)), extents, strides, row_dims
        )

    # --- combination of parts

    def _combine(self, result: FunctionResult, symbol: str) -> None:
        """Reduce the partial results in the workspace, and store the result."""
        b, parts = self.b, self.plan.parts
        count = volume(result.value.shape)
        width = min(count, 2048)
        dtype = result.value.dtype
        work = b.buffer(symbol, dtype, parts * count)
        low, high = core_share(b, self.kernel, -(-count // width))
        with b.for_(low, high) as iteration:
            start = b.mul(iteration, width)
            now = width if divides(width, count) else b.min(width, b.sub(count, start))
            pieces, total = b.tile(dtype, parts, width), b.tile(dtype, 1, width)
            b.load(work, start, pieces, 0, [parts, now], [count, 1], 1)
            b.map(
                parts,
                now,
                [(pieces, 0, "full")],
                [(total, 0, f"c{result.combine}")],
                lambda args: [args[0]],
            )
            init = result.init
            start_tile = None
            if isinstance(init, Operand):
                start_tile = b.tile(dtype, 1, width)
                source = b.buffer(str(init.value.symbol), dtype, volume(init.value.shape))
                b.load(source, start, start_tile, 0, [1, now], [1, 1], 1)
            total = self._map.started(
                result, total, 1, now, lambda: b.tile(dtype, 1, width), start_tile
            )
            for store in result.stores:
                b.store(
                    total,
                    0,
                    b.buffer(store.symbol, dtype, store.elements),
                    start,
                    [1, now],
                    [1, 1],
                    1,
                )
