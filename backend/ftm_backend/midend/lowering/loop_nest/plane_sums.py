"""Fused sums in a line-buffer kernel: one sum per plane of its result, before the store.

Example: the backward of max pooling produces ``dy``; batch norm's backward needs ``sum(dy)`` and
``sum(dy * x_hat)`` per channel. Summands may contain the loaded line buffer and parameters of a
plane. A tile's rows are planes, and its columns are in memory order. Each row is added to one
number, which is stored after all tiles of the planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node, Operand, Statement, Value
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.analysis.uniform_values import UniformValues
from ftm_backend.midend.lowering.loop_nest.emit_maps import MapInputs
from ftm_backend.midend.lowering.loop_nest.reductions import starts_at_identity
from ftm_backend.midend.lowering.map_bodies import mapped
from ftm_backend.midend.schedule.loop_nest.line_buffer_plan import LineBufferPlan
from ftm_backend.midend.schedule.loop_nest.merged_axes import AxisPosition, TileAxis, index_nodes

if TYPE_CHECKING:
    from ftm_backend.midend.lowering.loop_nest.line_buffer import LineBufferEmitter

__all__ = ["LineBufferSums", "SumPlacement", "is_sum_of", "place_sum", "split_off_sums"]


def split_off_sums(statements: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Split statements into those of the kernel and the sums of its result."""
    for number in range(1, len(statements)):
        if all(is_sum_of(statements[number - 1], s) for s in statements[number:]):
            return list(statements[:number]), list(statements[number:])
    return list(statements), []


def is_sum_of(last: Statement, statement: Statement) -> bool:
    """Whether ``statement`` only sums, over the elements of the result of ``last``."""
    if (
        last.is_reduction
        or not statement.is_reduction
        or statement.loops != last.loops
        or statement.gathers
        or statement.tensors
    ):
        return False
    if len(last.results) != 1 or len(statement.results) != 1 or index_nodes(statement.results):
        return False
    (made,), (result,) = last.results, statement.results
    if (
        result.combine != "sum"
        or not starts_at_identity(result)
        or result.value.dtype != result.yields.dtype
    ):
        return False
    read = [operand for operand in statement.operands if operand.value is made.value]
    return bool(read) and all(operand.index == made.index for operand in read)


@dataclass(frozen=True)
class SumPlacement:
    """Placement of a sum in the loops.

    Attributes:
        loops: Loops that are not reduced, without those of planes.
        planes: Loops of planes.
        levels: Number of levels of the plan outside a plane.
    """

    loops: tuple[int, ...]
    planes: tuple[int, ...]
    levels: int


def place_sum(plan: LineBufferPlan, last: Statement, statement: Statement) -> SumPlacement | None:
    """Return where a sum per plane fits into the plan's loops; None if it does not.

    Args:
        plan: The kernel's plan.
        last: The statement whose result is summed.
        statement: The sum. It may reduce planes or not.
    """
    every = range(len(last.loops))
    memory_order = [_axes_of_loop(plan, last, k) for k in every]
    planes = _loops_of_planes(plan, last, memory_order)
    if planes is None:
        return None
    inside = [k for k in every if k not in planes]
    loops = tuple(k for k in inside if not statement.reduced[k])
    summed = {a for k in inside if statement.reduced[k] for a in memory_order[k]}
    kept = {a for k in (*loops, *planes) for a in memory_order[k]}
    levels = _levels_outside(plan, kept)
    if levels is None or summed & kept or not summed.issuperset(plan.window_columns):
        return None
    loaded = _loaded(plan, last)
    is_found = all(_is_at_hand(plan, last, o, summed, loaded) for o in statement.operands)
    return SumPlacement(loops, planes, levels) if is_found else None


def _loops_of_planes(
    plan: LineBufferPlan, last: Statement, memory_order: Sequence[set[TileAxis]]
) -> tuple[int, ...] | None:
    """Return the loops over planes; None if a loop has no axis, or planes are not complete."""
    planes = tuple(k for k, axes in enumerate(memory_order) if axes == {plan.planes})
    has_axes = all(axes or n == 1 for axes, n in zip(memory_order, last.loops, strict=True))
    is_complete = prod(last.loops[k] for k in planes) == plan.planes.extent
    return planes if has_axes and is_complete else None


def _levels_outside(plan: LineBufferPlan, kept: set[TileAxis]) -> int | None:
    """Return the number of levels over ``kept`` axes; None if they are not the outer ones."""
    outside = [level.axis in kept for level in plan.tiles.levels]
    levels = sum(outside)
    is_shared = plan.tiles.shared_level in plan.tiles.levels[:levels]
    return levels if all(outside[:levels]) and is_shared else None


def _loaded(plan: LineBufferPlan, last: Statement) -> set[object]:
    """Return the tensors that the kernel has on chip, with their positions."""
    axes = plan.tiles.axes
    loaded = {
        _key(o.value, axes.position(s, o.index)) for s in axes.kernel.statements for o in s.operands
    }
    loaded.add(_key(last.results[0].value, axes.position(last, last.results[0].index)))
    return loaded


def _is_at_hand(
    plan: LineBufferPlan,
    last: Statement,
    operand: Operand,
    summed: set[TileAxis],
    loaded: set[object],
) -> bool:
    """Return whether the kernel has an operand of a sum on chip, or it is a parameter of planes."""
    value, position = operand.value, plan.tiles.axes.position(last, operand.index)
    is_plain = value.border is None and value.splat is None
    if not is_plain or not _is_straight(plan, last, operand.index):
        return False
    is_parameter = not position.steps.keys() & summed
    return is_parameter or (_is_contiguous(plan, position) and _key(value, position) in loaded)


def _key(value: Value, position: AxisPosition) -> object:
    return value, position.const, frozenset(position.steps.items())


def _axes_of_loop(plan: LineBufferPlan, last: Statement, loop: int) -> set[TileAxis]:
    """Return the axes of a loop of the last statement."""
    axes = plan.tiles.axes
    strides = axes.domain.coefficients(last, Affine.loop(loop, len(last.loops)))
    return {axis for axis in axes.axes if any(strides.get(leaf) for leaf in axis.leaves)}


def _is_straight(plan: LineBufferPlan, last: Statement, index: Affine) -> bool:
    """Whether an access has a single stride along each axis."""
    axes = plan.tiles.axes
    strides = axes.domain.coefficients(last, index)
    return all(
        strides.get(outer, 0) == strides.get(inner, 0) * inner.extent
        for axis in axes.axes
        for outer, inner in pairwise(axis.leaves)
    )


def _is_contiguous(plan: LineBufferPlan, position: AxisPosition) -> bool:
    """Whether the elements of a plane in a tile are contiguous in memory."""
    run = 1
    for axis in sorted(plan.window_columns, key=lambda a: position.steps.get(a, 0)):
        if position.steps.get(axis) != run:
            return False
        run *= axis.extent
    return plan.planes in position.steps


class LineBufferSums:
    """Emits the sums of one kernel."""

    def __init__(
        self, nest: LineBufferEmitter, last: Statement, statements: Sequence[Statement]
    ) -> None:
        """Place the sums.

        Raises:
            ValueError: The sums do not match the plan.
        """
        self.nest, self.last, self.statements = nest, last, statements
        kept = [place_sum(nest.line_buffer, last, s) for s in statements]
        if None in kept:
            raise ValueError(f"{nest.kernel.name}: its sums do not go with its strips")
        self.levels = next((each.levels for each in kept if each is not None), None)
        self.arrived: dict[object, TileDecl] = {}
        """Line buffers before their transposition, by operand and address."""
        self._uniforms = UniformValues(statements, nest.b)
        self._totals: list[TileDecl] = []
        self._parameters: dict[object, tuple[TileDecl, str]] = {}

    def prepare(self) -> None:
        """Emit what does not depend on tiles."""
        self._uniforms.compute()

    def begin(self) -> None:
        """Set the sums of some planes to zero, and load their parameters."""
        b, nest = self.nest.b, self.nest
        planes, width = nest.line_buffer.planes, nest.line_buffer.width
        self._totals, self._parameters = [], {}
        for statement in self.statements:
            dtype = statement.results[0].value.dtype
            total = b.tile(dtype, width, 1)
            zero = constant(0, dtype)
            b.map(nest.count[planes], 1, [], [(total, 0, "full")], lambda _, zero=zero: [zero])  # type: ignore[misc]
            self._totals.append(total)
            for operand in statement.operands:
                key, position = self._key(operand)
                if (
                    operand.value is self.last.results[0].value
                    or position.steps.keys() & set(nest.line_buffer.window_columns)
                    or key in self._parameters
                ):
                    continue
                step = position.steps.get(planes)
                tile = b.tile(operand.value.dtype, width if step else 1, 1)
                buffer, _ = nest.source(operand.value)
                b.load(
                    buffer,
                    nest.address(position),
                    tile,
                    0,
                    [nest.count[planes] if step else 1, 1],
                    [step or 1, 1],
                    1,
                )
                self._parameters[key] = tile, "col" if step else "one"

    def add(self, made: TileDecl) -> None:
        """Add a tile of the result: one row per plane, columns in memory order."""
        b, nest = self.nest.b, self.nest
        columns: Index = 1
        for axis in nest.line_buffer.window_columns:
            columns = b.mul(columns, nest.count[axis])
        inputs = MapInputs()
        leaves: dict[object, int] = {}
        for statement in self.statements:
            for operand in statement.operands:
                key, _ = self._key(operand)
                if operand.value is self.last.results[0].value:
                    leaves[key] = inputs.add(made, "full")
                elif key in self._parameters:
                    leaves[key] = inputs.add(*self._parameters[key])
                else:
                    leaves[key] = inputs.add(self.arrived[key], "full")
        uniform = {key: inputs.add(tile, "one") for key, (_, tile) in self._uniforms.tiles.items()}

        def body(arguments: Sequence[Node]) -> list[Node]:
            def leaf(node: Node) -> Node | None:
                if id(node) in uniform:
                    return arguments[uniform[id(node)]]
                return arguments[leaves[self._key(node.payload)[0]]] if node.op == "in" else None

            return mapped(b, [statement.results[0].yields for statement in self.statements], leaf)

        b.map(
            nest.count[nest.line_buffer.planes],
            columns,
            inputs.list,
            [(total, 0, "rsum.acc") for total in self._totals],
            body,
        )

    def end(self) -> None:
        """Store the sums."""
        b, nest = self.nest.b, self.nest
        planes = nest.line_buffer.planes
        for statement, total in zip(self.statements, self._totals, strict=True):
            (result,) = statement.results
            for store in result.stores:
                position = nest.axes.position(self.last, store.index)
                buffer = b.buffer(store.symbol, result.value.dtype, store.elements)
                b.store(
                    total,
                    0,
                    buffer,
                    nest.address(position),
                    [nest.count[planes], 1],
                    [position.steps[planes], 1],
                    1,
                )

    def _key(self, operand: Operand) -> tuple[object, AxisPosition]:
        return self.nest.key(self.last, operand)
