"""Reductions of nest kernels: what tiles they need, where they start, how cores put their parts
together."""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.ir.linalg.function import FunctionResult, Node, Statement
from ftm_backend.ir.linalg.scalar_nodes import identity
from ftm_backend.midend.schedule.loop_nest.tiling import NestTiling


@dataclass(frozen=True)
class ReductionForm:
    """How one result of a statement looks within a tile.

    ``word``: ``"r"`` reduces along columns, ``"c"`` down the rows, ``"a"`` both; ``""`` keeps every
    element. ``crossing``: further tiles add to it, so it is accumulated.
    """

    word: str
    crossing: bool
    rows: bool
    columns: bool


def form_of(plan: NestTiling, statement: Statement, narrow: bool) -> ReductionForm:
    """The form of a statement's results."""
    reduced = plan.axes.reduced[statement]
    turned = plan.axes.shape.turned
    rows = [] if narrow and turned else plan.rows
    columns = [] if narrow and not turned else plan.columns
    along = bool(columns) and columns[0] in reduced
    down = bool(rows) and rows[0] in reduced
    if along:
        word = "a" if down or not rows else "r"
    elif down:
        word = "c" if columns else "a"
    else:
        word = ""
    crossing = any(level.axis in reduced for level in plan.levels)
    return ReductionForm(word, crossing, bool(rows) and not down, bool(columns) and not along)


def partial_results(plan: NestTiling) -> list[FunctionResult]:
    """Results that each part leaves in a workspace, in order."""
    if not plan.parts:
        return []
    return [
        r
        for s in plan.axes.kernel.statements
        for r in s.results
        if any(level.axis in plan.axes.reduced[s] for level in plan.levels)
    ]


def starts_at_identity(result: FunctionResult) -> bool:
    """Whether a reduction starts from what a reduction of nothing gives."""
    start = result.init
    if not isinstance(start, Node) or start.op != "constant" or result.combine in (None, "general"):
        return False
    return start.payload == identity(result.combine, result.value.dtype)
