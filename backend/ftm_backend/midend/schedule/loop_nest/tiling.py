"""Tiling of a nest kernel: axes of the tile's rows, of its columns, and of the loops around it.

Example: for ``y[n, c] = relu(x[n, c])`` with n = 4096 and c = 300, c is the column axis and n the
row axis. The tile takes all of c and a part of n. One level loops over the parts, and cores share
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Operand
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.loop_nest.linalg_index import patterns
from ftm_backend.midend.schedule.loop_nest.map_stages import kept_values, stages_of
from ftm_backend.midend.schedule.loop_nest.merged_axes import (
    AxisPosition,
    TileAxes,
    TileAxis,
    axes_of,
)
from ftm_backend.symbolic import ceildiv, guarded_equal, lower_bound, size_hint
from ftm_backend.target.presets import ELEMENT_BYTES

_WIDE = 1024  # columns that keep vector code busy; axes are joined to reach it
_SHORT = 16  # reduced columns below this, such as a pooling's window, become rows or loops
_FEW = 4096  # elements; a smaller tile that is read once has as many columns as possible
_RUN = 256  # columns that DMA transfers efficiently, if there are few such rows
_SHARE = 4  # tiles take 1/_SHARE of AM, the rest is for ring buffers
_STREAMING_SHARE = 2  # the same for tiles with one buffer that are read once
_CACHED_SHARE = 8  # the same for tiles that several maps read, on a host: the nearest caches
_LEAST_SHARE = 3  # the same if tiles would otherwise waste a part of each DMA granule


@dataclass(eq=False, slots=True)
class TileLevel:
    """A loop over tiles: ``trip_count`` iterations of ``step`` elements along ``axis``."""

    axis: TileAxis
    step: int

    @property
    def trip_count(self) -> int:
        """Number of iterations; the last tile may be smaller."""
        return ceildiv(self.axis.extent, self.step)


@dataclass(eq=False)
class NestTiling:
    """The tiling of a nest kernel.

    Rows and columns are lists of axes, outermost first; only the outermost may be cut.
    ``levels[:accumulator_depth]`` are loops outside the accumulators of reductions, the other
    levels are inside. Cores share the loop ``shared_level``. If ``parts`` > 0, that is an inner
    level: it is cut into that many parts, whose partial results are combined at the end.
    """

    axes: TileAxes
    rows: list[TileAxis]
    columns: list[TileAxis]
    levels: list[TileLevel]
    accumulator_depth: int
    shared_level: TileLevel | None = None
    parts: int = 0
    cut: dict[TileAxis, int] = field(default_factory=dict)

    def row_count(self) -> int:
        """Return the most rows of a tile."""
        return self._count(self.rows)

    def column_count(self) -> int:
        """Return the most columns of a tile."""
        return self._count(self.columns)

    def levels_around(self, position: AxisPosition) -> int:
        """Return the loop depth of a load of ``position``.

        These are the levels that the address depends on and those outside of them.
        """
        needs = set(position.steps)
        for group in (self.rows, self.columns):
            if any(a in position.steps for a in group):
                needs.update(a for a in group if a in self.cut)
        return max(
            (number + 1 for number, level in enumerate(self.levels) if level.axis in needs),
            default=0,
        )

    def _count(self, axes: Sequence[TileAxis]) -> int:
        return volume([self.cut.get(a, a.extent) for a in axes])


def plan_tiles(kernel: Kernel) -> NestTiling:
    """Choose the tiling of a nest kernel."""
    axes = axes_of(kernel)
    if axes.shape.resident:
        columns = [a for a in axes.axes if a.leaves[0] in axes.shape.held]
        rows = [a for a in axes.axes if a not in columns]
        if axes.shape.transposed:
            rows, columns = columns, rows
    else:
        rows, columns = _rows_and_columns(axes)
    plan = NestTiling(axes, rows, columns, [], 0)
    _cut(plan, axes)
    _order_levels(plan, axes)
    _choose_shared_level(plan, axes)
    return plan


# --- rows and columns


def _rows_and_columns(axes: TileAxes) -> tuple[list[TileAxis], list[TileAxis]]:
    kernel = axes.kernel
    reduced = frozenset(a for s in kernel.statements for a in axes.reduced[s])
    is_general = any(r.combine == "general" for s in kernel.statements for r in s.results)
    candidates = [a for a in axes.axes if not is_general or a not in reduced]
    if not candidates:
        return [], []
    order = {a: k for k, a in enumerate(axes.axes)}
    columns = _columns(axes, candidates, reduced)
    parallel = [a for a in candidates if a not in reduced]
    if parallel and columns[0] in reduced and _elements(columns) < _SHORT:
        wider = _columns(axes, parallel, reduced)
        if _elements(wider) >= _SHORT:
            columns = wider
    rest = [a for a in reversed(axes.axes) if a in candidates and a not in columns]
    rows = _rows(rest, columns, reduced) if rest else []
    return sorted(rows, key=order.__getitem__), sorted(columns, key=order.__getitem__)


def _elements(axes: list[TileAxis]) -> int:
    return size_hint(volume([a.extent for a in axes]))


def _columns(
    axes: TileAxes, candidates: list[TileAxis], reduced: frozenset[TileAxis]
) -> list[TileAxis]:
    """Return the axis that most transfers are contiguous along, and axes that widen it."""
    positions = [
        (p, size_hint(volume([a.extent for a in p.steps]))) for p in memory_positions(axes)
    ]
    order = {a: k for k, a in enumerate(axes.axes)}

    def unit_strides(axis: TileAxis) -> tuple[int, int, int]:
        runs = sum(
            weight * min(size_hint(axis.extent), 16)
            for position, weight in positions
            if guarded_equal(abs(position.steps.get(axis, 0)), 1)
        )
        return (runs, size_hint(axis.extent), order[axis])

    columns = [max(candidates, key=unit_strides)]
    for axis in [a for a in reversed(axes.axes) if a in candidates and a not in columns]:
        if size_hint(volume([a.extent for a in columns])) >= _WIDE:
            break
        varies_alike = all(
            bool(position.steps.get(axis)) == any(position.steps.get(c) for c in columns)
            for position, _ in positions
        )
        if varies_alike and (axis in reduced) == (columns[0] in reduced):
            columns.append(axis)
    return columns


def _rows(
    rest: list[TileAxis], columns: list[TileAxis], reduced: frozenset[TileAxis]
) -> list[TileAxis]:
    """Return the axes of rows.

    Reduced columns go with parallel rows (one result per row). Parallel columns go with reduced
    rows, which are accumulated.
    """
    preferred = [a for a in rest if (a in reduced) != (columns[0] in reduced)]
    if not reduced:
        preferred = rest
    has_reduced_rows = (preferred or rest)[0] in reduced
    rows: list[TileAxis] = []
    for axis in rest:
        elements = size_hint(volume([a.extent for a in (*rows, *columns)]))
        if (axis in reduced) == has_reduced_rows and elements < 4 * _WIDE:
            rows.append(axis)
    return rows


def memory_positions(axes: TileAxes) -> list[AxisPosition]:
    """Return the addresses that the kernel transfers between DDR and tiles."""
    result = []
    for s in axes.kernel.statements:
        result += [
            axes.position(s, o.index) for o in s.operands if o.value.producer not in axes.spans
        ]
        result += [axes.position(s, store.index) for r in s.results for store in r.stores]
    return result


# --- sizes


def element_bytes(axes: TileAxes, tiled: list[TileAxis]) -> int:
    """Return the scratchpad bytes per element of a tile over the axes ``tiled``.

    They cover loads, stores and values that later maps read, except for single elements.
    """
    each = (size for size, position in _tiles(axes) if any(position.steps.get(a) for a in tiled))
    return max(sum(each), 1)


def line_bytes(axes: TileAxes, across: list[TileAxis]) -> int:
    """Return the scratchpad bytes per column of a tile with all rows, or per row with all columns.

    Args:
        axes: The kernel's axes.
        across: Axes of these rows or columns. A tensor that does not depend on them has a single
            element.
    """
    count = size_hint(volume([a.extent for a in across]))
    return max(
        sum(
            size * (count if any(position.steps.get(a) for a in across) else 1)
            for size, position in _tiles(axes)
        ),
        1,
    )


def _tiles(axes: TileAxes) -> list[tuple[int, AxisPosition]]:
    """Return the bytes per element and the address of each tile."""
    loaded: set[tuple[object, int, tuple[int, ...]]] = set()
    result = []
    kept = kept_values(axes, stages_of(axes))
    for s in axes.kernel.statements:
        for o in s.operands:
            key = (o.value, o.index.const, o.index.coeffs)
            if o.value.producer not in axes.spans and key not in loaded:
                loaded.add(key)
                result.append((ELEMENT_BYTES[o.value.dtype], axes.position(s, o.index)))
        result += [
            (ELEMENT_BYTES[r.value.dtype], axes.position(s, r.index))
            for r in s.results
            if r.stores or r.value in kept
        ]
    return result


def pattern_bytes(axes: TileAxes, rows: list[TileAxis], columns: list[TileAxis]) -> int:
    """Return the bytes per element of a tile for its index vectors.

    A tile with a single row, or possibly so, needs a whole vector per column.
    """
    each = ELEMENT_BYTES["i64"]
    sharing = {True: volume([a.extent for a in columns]), False: volume([a.extent for a in rows])}
    least = (lower_bound(sharing[is_rows]) for is_rows, _ in patterns(axes, rows, columns))
    return sum(ceildiv(each, min(max(count, 1), each)) for count in least)


def _cut(plan: NestTiling, axes: TileAxes) -> None:
    """Cut the outermost row and column axes for the tile's part of AM and the number of cores."""
    kernel, shape = axes.kernel, axes.shape
    rows, columns = plan.rows, plan.columns
    # Without loops over windows each element is read once: larger tiles only save instructions.
    is_streaming = kernel.machine.tile_buffers == 1 and all(
        axis in rows or axis in columns for reduced in axes.reduced.values() for axis in reduced
    )
    share = _STREAMING_SHARE if is_streaming else _SHARE
    elements = max(
        kernel.machine.am_bytes
        // share
        // (element_bytes(axes, rows + columns) + pattern_bytes(axes, rows, columns)),
        64,
    )
    if shape.resident and shape.transposed:
        _fit(plan, columns, _columns_of_whole_rows(plan, axes))
    elif shape.resident and kernel.machine.tile_buffers > 1:
        each = line_bytes(axes, columns) + pattern_bytes(axes, rows, columns) * size_hint(
            plan.column_count()
        )
        _fit(plan, rows, max(kernel.machine.am_bytes // _SHARE // each, 1))
    elif shape.resident:
        _fit(plan, rows, _rows_of_whole_columns(plan, axes))
    else:
        if columns:
            is_one_run = is_streaming and elements < _FEW  # its transfers need no copy
            most = max(elements // (8 if rows and not is_one_run else 1), 1)
            _cut_axis(plan, columns, most, _line_elements(plan, axes))
            if is_one_run and size_hint(plan.column_count()) >= _WIDE:
                elements = 1  # one row
        _fit(plan, rows, max(elements // max(size_hint(plan.column_count()), 1), 1))
    if not kernel.one_core:
        _cut_for_cores(plan, axes)


def _rows_of_whole_columns(plan: NestTiling, axes: TileAxes) -> int:
    """Return the most rows of a tile with all its columns, if tiles have one buffer.

    What does not depend on rows, such as the weights of a normalization, is loaded once.
    """
    columns = size_hint(plan.column_count())
    each, once = pattern_bytes(axes, plan.rows, plan.columns) * columns, 0
    for size, position in _tiles(axes):
        has_columns = any(position.steps.get(a) for a in plan.columns)
        if any(position.steps.get(a) for a in plan.rows):
            each += size * (columns if has_columns else 1)
        else:
            once += size * (columns if has_columns else 1)
    return max((axes.kernel.machine.am_bytes // _CACHED_SHARE - once) // max(each, 1), 1)


def _columns_of_whole_rows(plan: NestTiling, axes: TileAxes) -> int:
    """Return the most columns of a tile with all its rows.

    They are a multiple of DMA granules if they are at least one, or if AM has room for one.
    """
    am, granule = axes.kernel.machine.am_bytes, _granule_columns(plan, axes)
    each = line_bytes(axes, plan.rows) + pattern_bytes(axes, plan.rows, plan.columns) * size_hint(
        plan.row_count()
    )
    most = max(am // _SHARE // each, 1)
    if most < granule:
        return granule if granule * each <= am // _LEAST_SHARE else most
    return most - most % granule


def _granule_columns(plan: NestTiling, axes: TileAxes) -> int:
    """Return the columns of a DMA granule if tiles are contiguous along columns, else 1."""
    sizes = [
        size
        for size, position in _tiles(axes)
        if plan.columns
        and abs(size_hint(position.steps.get(plan.columns[-1], 0))) == 1
        and any(position.steps.get(a) for a in plan.rows)
    ]
    return max(1, axes.kernel.machine.dma_granule // min(sizes)) if sizes else 1


def _fit(plan: NestTiling, group: list[TileAxis], limit: int) -> None:
    """Limit ``group`` to ``limit`` elements: move outer axes to loops, then cut the outermost."""
    while len(group) > 1 and size_hint(volume([a.extent for a in group[1:]])) > size_hint(limit):
        group.pop(0)
    if group:
        _cut_axis(plan, group, limit)


def _cut_axis(plan: NestTiling, group: list[TileAxis], limit: int, unit: int = 1) -> None:
    """Cut ``group`` into even parts of at most ``limit`` elements.

    Long parts of the outermost axis are multiples of ``unit``.
    """
    inner, extent = size_hint(volume([a.extent for a in group[1:]])), group[0].extent
    most = max(size_hint(limit) // max(inner, 1), 1)
    if most > _WIDE:
        most -= most % unit
    if size_hint(extent) > most:
        even = ceildiv(size_hint(extent), ceildiv(size_hint(extent), most))
        plan.cut[group[0]] = _in_units(even, unit)


def _in_units(step: int, unit: int) -> int:
    """Round a long step up to a multiple of ``unit``; the last part is then a little smaller."""
    return ceildiv(step, unit) * unit if step > _WIDE else step


def _line_elements(plan: NestTiling, axes: TileAxes) -> int:
    """Return the columns that fill a cache line, if maps access memory directly; else 1.

    Parts that begin inside of a line make each vector access two lines: on the host, `exp` takes
    1.1 times as long.
    """
    machine = axes.kernel.machine
    if machine.tile_buffers > 1 or len(plan.columns) != 1:
        return 1
    column = plan.columns[0]
    sizes = [size for size, position in _tiles(axes) if position.steps.get(column)]
    return max(1, machine.vector_bytes // min(sizes)) if sizes else 1


def _cut_for_cores(plan: NestTiling, axes: TileAxes) -> None:
    """Cut further if there are too few tiles to keep all cores busy."""
    shape = axes.shape
    for group in (
        [] if shape.transposed else plan.rows,
        plan.columns if shape.transposed or not shape.resident else [],
    ):
        if group:
            _cut_group(plan, axes, group)


def _cut_group(plan: NestTiling, axes: TileAxes, group: list[TileAxis]) -> None:
    """Cut the outer axis of rows or columns, if there are fewer than two tiles for each core."""
    machine, axis = axes.kernel.machine, group[0]
    wanted = 2 * machine.cores
    tiles = _independent_tiles(plan, axes, group, wanted)
    if tiles >= wanted:
        return
    step = plan.cut.get(axis, axis.extent)
    cut = size_hint(ceildiv(axis.extent, step))
    pieces = (
        ceildiv(cut * wanted, tiles) if machine.tile_buffers > 1 else cut * ceildiv(wanted, tiles)
    )
    pieces = min(pieces, size_hint(axis.extent))
    step = ceildiv(size_hint(axis.extent), pieces)
    if axes.shape.transposed:  # transfers below a granule are not faster on more cores
        inner = size_hint(volume([a.extent for a in group[1:]]))
        step = max(step, ceildiv(_granule_columns(plan, axes), inner))
    elif group is plan.columns:
        step = _in_units(step, _line_elements(plan, axes))
    if size_hint(step) < size_hint(axis.extent):
        plan.cut[axis] = step


def _independent_tiles(plan: NestTiling, axes: TileAxes, group: list[TileAxis], wanted: int) -> int:
    """Return the number of tiles; without those of one result if results are enough for cores."""
    levels = _levels(plan, axes)
    reduced = frozenset(a for s in axes.kernel.statements for a in axes.reduced[s])
    within = [level for level in levels if level.axis in reduced]
    is_short = size_hint(volume([level.trip_count for level in within])) <= wanted
    least = _RUN if is_short else _WIDE
    elements = size_hint(volume([a.extent for a in group]))
    if group[0] not in reduced and elements >= wanted * least:
        # Cores with separate results need not combine partial sums.
        levels = [level for level in levels if level not in within]
    return size_hint(volume([level.trip_count for level in levels]))


# --- loops


def _levels(plan: NestTiling, axes: TileAxes) -> list[TileLevel]:
    """Return all loops around a tile: axes outside tiles, then cut columns, then cut rows."""
    tiled = (*plan.rows, *plan.columns)
    levels = [TileLevel(a, 1) for a in axes.axes if a not in tiled]
    for group in (plan.columns, plan.rows):
        levels += [TileLevel(a, plan.cut[a]) for a in group if a in plan.cut]
    return levels


def _order_levels(plan: NestTiling, axes: TileAxes) -> None:
    levels = _levels(plan, axes)
    if axes.shape.resident:
        looped = {level.axis for level in levels}
        crossing = any(axes.reduced[s] & looped for s in axes.kernel.statements)
        plan.levels, plan.accumulator_depth = levels, 0 if crossing else len(levels)
        return
    reduced = frozenset(a for s in axes.kernel.statements for a in axes.reduced[s])
    outer = [level for level in levels if level.axis not in reduced]
    plan.levels = outer + [level for level in levels if level.axis in reduced]
    plan.accumulator_depth = len(outer)


def _choose_shared_level(plan: NestTiling, axes: TileAxes) -> None:
    """Choose the level that cores share."""
    kernel = axes.kernel
    if kernel.one_core:
        return
    outer, inner = plan.levels[: plan.accumulator_depth], plan.levels[plan.accumulator_depth :]
    best = max(outer, key=lambda level: size_hint(level.trip_count), default=None)
    widest = max(inner, key=lambda level: size_hint(level.trip_count), default=None)
    cores = kernel.machine.cores
    if (
        widest is not None
        and (best is None or size_hint(best.trip_count) < cores)
        and size_hint(widest.trip_count) > 1
        and _can_split(axes)
    ):
        plan.shared_level, plan.parts = widest, min(size_hint(widest.trip_count), 2 * cores)
    else:
        plan.shared_level = best


def _can_split(axes: TileAxes) -> bool:
    """Whether a pass over the results can combine partial results."""
    held = {a for a in axes.axes if a.leaves[0] in axes.shape.held}
    for s in axes.kernel.statements:
        if not axes.reduced[s] or (axes.shape.resident and axes.reduced[s] <= held):
            continue
        for r in s.results:
            if r.combine == "general" or any(store.index != r.index for store in r.stores):
                return False
            if isinstance(r.init, Operand) and r.init.index != r.index:
                return False
    return True
