"""Reductions of nest kernels: shapes of their tiles, initial values, and partial results."""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.ir.linalg.body_builder import identity
from ftm_backend.ir.linalg.function import FunctionResult, Node, Statement
from ftm_backend.midend.schedule.loop_nest.tiling import NestTiling


@dataclass(frozen=True)
class ReductionForm:
    """Shape of a statement's results within a tile.

    Attributes:
        direction: Direction of the reduction: ``"r"`` along columns, ``"c"`` down the rows, ``"a"``
            both, ``""`` none.
        needs_accumulator: Whether the reduction continues in other tiles.
        rows: Whether the results have all rows of the tile.
        columns: Whether the results have all columns of the tile.
    """

    direction: str
    needs_accumulator: bool
    rows: bool
    columns: bool


def reduction_form(plan: NestTiling, statement: Statement, narrow: bool) -> ReductionForm:
    """Return the form of a statement's results."""
    reduced = plan.axes.reduced[statement]
    transposed = plan.axes.shape.transposed
    rows = [] if narrow and transposed else plan.rows
    columns = [] if narrow and not transposed else plan.columns
    along = bool(columns) and columns[0] in reduced
    down = bool(rows) and rows[0] in reduced
    if along:
        direction = "a" if down or not rows else "r"
    elif down:
        direction = "c" if columns else "a"
    else:
        direction = ""
    needs_accumulator = any(level.axis in reduced for level in plan.levels)
    return ReductionForm(
        direction, needs_accumulator, bool(rows) and not down, bool(columns) and not along
    )


def partial_results(plan: NestTiling) -> list[FunctionResult]:
    """Return the results with partial results in workspaces, in order."""
    if not plan.parts:
        return []
    return [
        r
        for s in plan.axes.kernel.statements
        for r in s.results
        if any(level.axis in plan.axes.reduced[s] for level in plan.levels)
    ]


def starts_at_identity(result: FunctionResult) -> bool:
    """Whether a reduction's initial value is the identity of its combination."""
    start = result.init
    if not isinstance(start, Node) or start.op != "constant" or result.combine in (None, "general"):
        return False
    return start.payload == identity(result.combine, result.value.dtype)
