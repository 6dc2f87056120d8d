"""Line-buffer plan: reductions over overlapping windows (pooling) that load each element once.

Overlapping or strided windows would load single elements, each as often as windows contain it. If
all tensors of the kernel have *planes* (batch, channels) as outer dimensions, the kernel loads some
rows of some planes with contiguous transfers into a line buffer, and transposes them on chip. The
columns of its vectors are then planes, whatever the windows' strides.

Example: max pooling 3x3 with stride 2 on [N, C, H, W] has N*C planes. A line buffer has up to 128
planes and as many rows as AM has room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from ftm_backend.ir.linalg.function import Node
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.schedule.loop_nest.merged_axes import (
    AxisPosition,
    TileAxes,
    TileAxis,
    axes_of,
    index_nodes,
)
from ftm_backend.midend.schedule.loop_nest.tiling import NestTiling, TileLevel, plan_tiles
from ftm_backend.symbolic import ceildiv, is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["LineBufferPlan", "plan_line_buffer"]

_PLANES = (128, 64, 32, 16)
"""Candidate numbers of planes of a line buffer."""

_MAX_WINDOW_ELEMENTS = 64
"""Most elements of a window; each is a row of the reduction."""

_PART_OF_AM = 0.95


@dataclass(frozen=True, slots=True)
class LineBufferAccess:
    """A load or store at ``position``, of elements of type ``dtype``."""

    position: AxisPosition
    dtype: str
    stored: bool


@dataclass(eq=False, slots=True)
class LineBufferPlan:
    """Tiles of a nest: rows are the elements of a window, the last column is ``planes``."""

    tiles: NestTiling
    planes: TileAxis
    windows_outermost: bool
    """Whether a part of the windows is the outer loop and planes are the inner one.

    Tensors that are the same for all planes are then loaded once for all of them.
    """

    @property
    def window_columns(self) -> list[TileAxis]:
        """The columns other than planes: windows, outermost first."""
        return self.tiles.columns[:-1]

    @property
    def width(self) -> int:
        """Most planes of a line buffer."""
        return self.tiles.cut.get(self.planes, self.planes.extent)

    def run(self, position: AxisPosition) -> int:
        """Return the most contiguous elements per plane that the buffer of ``position`` holds."""
        cut = self.tiles.cut
        return 1 + sum(
            (cut.get(a, a.extent) - 1) * position.steps.get(a, 0)
            for a in (*self.tiles.rows, *self.window_columns)
        )


def plan_line_buffer(kernel: Kernel, consecutive_planes: bool = False) -> LineBufferPlan | None:
    """Return the cheapest plan.

    Args:
        kernel: The loop nest.
        consecutive_planes: Whether all tiles of a plane must be consecutive, as fused sums need it.

    Returns:
        The plan, or None. None also if the kernel has no window reduction, or if the plan of other
        loop nests is cheaper.
    """
    machine = kernel.machine
    if kernel.one_core or not _may_have_windows(kernel):
        return None
    axes = axes_of(kernel)
    accesses = list(_accesses(axes))
    reduced = _window_axes(axes)
    if reduced is None or not all(
        step >= 0 for each in accesses for step in each.position.steps.values()
    ):
        return None
    parallel = [a for a in axes.axes if a not in reduced]
    if axes.shape.resident:
        axes.shape = replace(axes.shape, transposed=True)  # the elements of a window are rows
    found = [
        (_cycles(plan, accesses, machine), plan)
        for planes in _plane_axes(parallel, accesses)
        for plan in _candidates(axes, reduced, parallel, planes, accesses)
        if not (consecutive_planes and plan.windows_outermost)
    ]
    if not found:
        return None
    cycles, best = min(found, key=lambda each: each[0])
    return (
        best if cycles < _nest_cycles(plan_tiles(replace(kernel, domain=None)), machine) else None
    )


def _may_have_windows(kernel: Kernel) -> bool:
    """Whether the loops may have windows; cheap, since most kernels have none."""
    found = False
    for s in kernel.statements:
        if not all(is_integer(n) and n > 0 for n in s.loops):
            return False
        if s.is_reduction:
            found = True
            if (
                not 1
                < prod(n for n, reduced in zip(s.loops, s.reduced, strict=True) if reduced)
                <= _MAX_WINDOW_ELEMENTS
            ):
                return False
    return found


# --- accesses of the kernel


def _accesses(axes: TileAxes) -> Iterator[LineBufferAccess]:
    """Yield the loads from DDR, without duplicates, and the stores."""
    loaded = set()
    for s in axes.kernel.statements:
        for o in s.operands:
            position = axes.position(s, o.index)
            key = (o.value, position.const, frozenset(position.steps.items()))
            if o.value.producer not in axes.spans and key not in loaded:
                loaded.add(key)
                yield LineBufferAccess(position, o.value.dtype, False)
        for r in s.results:
            for store in r.stores:
                yield LineBufferAccess(axes.position(s, store.index), r.value.dtype, True)


def _window_axes(axes: TileAxes) -> list[TileAxis] | None:
    """Return the axes of the elements of a window, which all reductions reduce.

    None if the statements use these axes in another way.
    """
    statements = axes.kernel.statements
    reduced = next(axes.reduced[s] for s in statements if axes.reduced[s])
    every = frozenset(axes.axes)
    for s in statements:
        if (
            s.gathers
            or s.tensors
            or index_nodes(s.results)
            or axes.reduced[s] not in (reduced, frozenset())
        ):
            return None
        if axes.spans[s] not in (every, every - reduced):
            return None
        if any(
            r.combine == "general" or (r.combine is not None and not isinstance(r.init, Node))
            for r in s.results
        ):
            return None
    return [a for a in axes.axes if a in reduced]


def _plane_axes(
    parallel: Sequence[TileAxis], accesses: Sequence[LineBufferAccess]
) -> list[TileAxis]:
    """Return the axes that may be columns.

    Nothing is contiguous along them, except tensors that depend on no other axis.
    """
    stored = [each.position.steps for each in accesses if each.stored]
    windows_outermost = [each.position.steps for each in accesses if len(each.position.steps) > 1]
    return [
        a
        for a in parallel
        if all(steps.get(a) != 1 for steps in windows_outermost)
        and all(a in steps for steps in stored)
    ]


# --- candidates


def _candidates(
    axes: TileAxes,
    window_axes: list[TileAxis],
    parallel: Sequence[TileAxis],
    planes: TileAxis,
    accesses: Sequence[LineBufferAccess],
) -> Iterator[LineBufferPlan]:
    """Yield the plans that fit, each with as many windows as leave room for double buffering."""
    target = next(each.position for each in accesses if each.stored)
    window_columns = sorted(
        (a for a in parallel if a is not planes), key=lambda a: -target.steps.get(a, 0)
    )
    room = int(_PART_OF_AM * axes.kernel.machine.am_bytes)
    for width in sorted({min(width, planes.extent) for width in _PLANES}):
        for first in range(len(window_columns)):
            # Axes outside of ``first`` are loops of single steps; ``first`` is cut.
            fitting = (
                n
                for n in _sizes(window_columns[first].extent)
                if _bytes(
                    _plan(axes, window_axes, window_columns, planes, (first, n), width), accesses
                )
                <= room
            )
            most = next(fitting, 0)
            if most:
                yield _plan(axes, window_axes, window_columns, planes, (first, most), width)
                if most < window_columns[first].extent:
                    yield _plan(
                        axes, window_axes, window_columns, planes, (first, most), width, True
                    )
                break


def _sizes(extent: int) -> list[int]:
    """Return the sizes of even parts of an extent, the largest first."""
    return sorted({ceildiv(extent, pieces) for pieces in range(1, extent + 1)}, reverse=True)


def _plan(
    axes: TileAxes,
    window_axes: list[TileAxis],
    window_columns: list[TileAxis],
    planes: TileAxis,
    part: tuple[int, int],
    width: int,
    windows_outermost: bool = False,
) -> LineBufferPlan:
    """Return a plan; ``part``: the index of the cut window column, and its tile size."""
    (first, step), cut = part, {}
    levels = [TileLevel(planes, width), *(TileLevel(a, 1) for a in window_columns[:first])]
    if width < planes.extent:
        cut[planes] = width
    if step < window_columns[first].extent:
        cut[window_columns[first]] = step
        levels.insert(
            0 if windows_outermost else len(levels), TileLevel(window_columns[first], step)
        )
    tiles = NestTiling(
        axes, window_axes, [*window_columns[first:], planes], levels, len(levels), cut=cut
    )
    cores = axes.kernel.machine.cores
    tiles.shared_level = min(
        levels, key=lambda level: ceildiv(level.trip_count, cores) / level.trip_count
    )
    return LineBufferPlan(tiles, planes, windows_outermost)


def _bytes(plan: LineBufferPlan, accesses: Sequence[LineBufferAccess]) -> int:
    """Return the scratchpad bytes of the tiles, including the ring buffers of transfers."""
    windows, width, window_axes = (
        prod(plan.tiles.cut.get(a, a.extent) for a in g)
        for g in (plan.window_columns, [plan.planes], plan.tiles.rows)
    )
    total = 0
    for each in accesses:
        item, along = ELEMENT_BYTES[each.dtype], plan.run(each.position)
        loaded = windows * width * (window_axes if _over(each.position, plan.tiles.rows) else 1)
        if each.stored:
            total += item * 4 * loaded
        else:
            total += item * (
                (3 * width if plan.planes in each.position.steps else 2) * along + loaded
            )
    kept = {
        r.value: r.value.dtype
        for s in plan.tiles.axes.kernel.statements
        for r in s.results
        if not r.stores
    }
    return total + 2 * windows * width * sum(ELEMENT_BYTES[dtype] for dtype in kept.values())


# --- cost


def _over(position: AxisPosition, axes: Sequence[TileAxis]) -> bool:
    return any(a in position.steps for a in axes)


def _cycles(
    plan: LineBufferPlan, accesses: Sequence[LineBufferAccess], machine: MachineParameters
) -> float:
    """Return the cycles of DMA and transpositions in sequence, an upper bound: they overlap."""
    tiles = plan.tiles
    windows, width, window_axes = (
        prod(tiles.cut.get(a, a.extent) for a in g)
        for g in (plan.window_columns, [plan.planes], tiles.rows)
    )
    rate = cost_rules.bytes_per_cycle(machine, machine.cores)
    shared_level = tiles.shared_level
    assert shared_level is not None
    trip_counts = [
        ceildiv(level.trip_count, machine.cores) if level is shared_level else level.trip_count
        for level in tiles.levels
    ]
    total = 0.0
    for each in accesses:
        item, has_planes = ELEMENT_BYTES[each.dtype], plan.planes in each.position.steps
        loaded = windows * (window_axes if _over(each.position, tiles.rows) else 1)
        along, deep = loaded if each.stored else plan.run(each.position), width if has_planes else 1
        moved = deep * cost_rules.granules(machine, along * item)
        copied = loaded * width * item
        once = cost_rules.transfer_cycles(machine, moved / rate, 0.0, 0.0)
        once += cost_rules.transfer_cycles(machine, 0.0, 0.0, copied / machine.gsm_bytes_per_cycle)
        once += cost_rules.transpose_cycles(machine, each.dtype, deep, along) if has_planes else 0.0
        total += once * prod(
            trip_counts if each.stored else trip_counts[: tiles.levels_around(each.position)]
        )
    return total


def _nest_cycles(tiles: NestTiling, machine: MachineParameters) -> float:
    """Return the DMA cycles of the usual plan, without arithmetic: a lower bound."""
    rate = cost_rules.bytes_per_cycle(machine, machine.cores)
    total = 0.0
    for each in _accesses(tiles.axes):
        item, steps = ELEMENT_BYTES[each.dtype], each.position.steps
        dims = [
            (tiles.cut.get(a, a.extent), steps[a])
            for a in (*tiles.rows, *tiles.columns)
            if a in steps
        ]
        count, run = prod(n for n, _ in dims), 1
        for extent, step in reversed(dims):
            if step != run:
                break
            run *= extent
        single = run == 1 and count > 1
        moved = cost_rules.transfer_cycles(
            machine,
            count // run * cost_rules.granules(machine, run * item) / rate,
            0.0,
            count * machine.dma_element_cycles * single,
        )
        total += moved * prod(level.trip_count for level in tiles.levels if level.axis in steps)
    return total / machine.cores
