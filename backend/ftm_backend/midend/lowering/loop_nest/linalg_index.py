"""Loop indices used as numbers (``linalg.index``) within tiles.

An index that is linear in the tile's row and column is one ``ftm.position``. If several axes form
a side of the tile, the index is not linear along it. Its contribution is then the same in every
tile, so it is computed once, before the loops, into a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node, Statement
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.schedule.loop_nest.merged_axes import (
    AxisPosition,
    TileAxes,
    TileAxis,
    index_nodes,
)
from ftm_backend.symbolic import guarded_equal

if TYPE_CHECKING:
    from ftm_backend.midend.lowering.loop_nest.emit_loops import NestEmitter

Runs = tuple[tuple[int, int], ...]


class IndexPositions:
    """Index values of one nest kernel."""

    def __init__(self, nest: NestEmitter):
        """Start without vectors; ``prepare`` computes them."""
        self._nest = nest
        self._patterns: dict[tuple[bool, Runs], TileDecl] = {}

    def prepare(self) -> None:
        """Emit the vectors of nonlinear indices at the insertion point."""
        plan = self._nest.plan
        for rows, runs in patterns(self._nest.axes, plan.rows, plan.columns):
            self._patterns[rows, runs] = self._pattern(rows, runs)

    def parts(self, s: Statement, node: Node) -> tuple[Index, int, int, list[tuple[TileDecl, str]]]:
        """Return an index: base, strides of rows and columns, pairs (vector, access) to add."""
        position = self._nest.axes.position(s, node.payload)
        steps = [0, 0]
        added = []
        for rows, runs in _sides(position, self._nest.plan.rows, self._nest.plan.columns):
            if len(runs) > 1:
                added.append((self._patterns[rows, runs], "col" if rows else "row"))
            elif runs:
                steps[not rows] = runs[0][1]
        return self._nest.address(position), steps[0], steps[1], added

    def _pattern(self, rows: bool, runs: Runs) -> TileDecl:
        nest, b = self._nest, self._nest.b
        tile = nest.tile("i64", rows, not rows)
        extents = (nest.plan.row_count(), 1) if rows else (1, nest.plan.column_count())

        def body(_: Sequence[Node]) -> list[Node]:
            counter = b.position(0, int(rows), int(not rows))
            total, inner = None, 1
            for k, (extent, step) in reversed(list(enumerate(runs))):
                if step:
                    digit = (
                        counter if guarded_equal(inner, 1) else _of("arith.divsi", counter, inner)
                    )
                    digit = _of("arith.remsi", digit, extent) if k else digit
                    term = _of("arith.muli", digit, step)
                    total = term if total is None else Node("arith.addi", "i64", (total, term))
                inner *= extent
            assert total is not None
            return [total]

        b.map(*extents, [], [(tile, 0, "full")], body)
        return tile


def patterns(
    axes: TileAxes, rows: Sequence[TileAxis], columns: Sequence[TileAxis]
) -> list[tuple[bool, Runs]]:
    """Return the vectors that tiles of these rows and columns need, without duplicates.

    Each is a pair: whether it is along rows, and its extents and strides.
    """
    positions = [
        axes.position(s, node.payload)
        for s in axes.kernel.statements
        for node in index_nodes(s.results)
    ]
    return list(
        dict.fromkeys(
            side
            for position in positions
            for side in _sides(position, rows, columns)
            if len(side[1]) > 1
        )
    )


def _sides(
    position: AxisPosition, rows: Sequence[TileAxis], columns: Sequence[TileAxis]
) -> list[tuple[bool, Runs]]:
    return [
        (is_rows, _runs([(a, position.steps.get(a, 0)) for a in group]))
        for is_rows, group in ((True, rows), (False, columns))
    ]


def _runs(steps: Sequence[tuple[TileAxis, int]]) -> Runs:
    """Return (extent, stride) of a side's axes, with neighbours of a common stride merged."""
    runs: list[tuple[int, int]] = []
    for axis, step in steps:
        if runs and runs[-1][1] == step * axis.extent:
            runs[-1] = (runs[-1][0] * axis.extent, step)
        else:
            runs.append((axis.extent, step))
    return tuple(runs) if any(step for _, step in runs) else ()


def _of(name: str, node: Node, number: int) -> Node:
    return Node(name, "i64", (node, constant(number, "i64")))
