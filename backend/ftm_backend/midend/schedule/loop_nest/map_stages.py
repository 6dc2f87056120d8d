"""Stages of a tile: statements that one map computes together, in order.

A map computes all results of an element at once. So a statement needs a later map if it uses a
value that another statement reduces along the held axes (softmax divides by a sum), or if one of
the two works on whole tiles and the other one on one value per free element (*narrow*).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.schedule.loop_nest.iteration_domain import (
    DomainDim,
    IterationDomain,
    Loops,
)
from ftm_backend.midend.schedule.loop_nest.merged_axes import TileAxes


@dataclass(eq=False)
class MapStage:
    """Statements of one map. ``narrow``: the map covers the free axes only."""

    narrow: bool
    statements: list[Statement] = field(default_factory=list)


def stage_keys(
    domain: IterationDomain, held: Collection[DomainDim]
) -> dict[Statement, tuple[int, bool]]:
    """Return for each statement the number of the first map that can compute it.

    Args:
        domain: The statements, in order.
        held: The dimensions that a tile covers completely.

    Returns:
        The number, and whether the map is narrow: the statement lacks the dimensions ``held``.
    """
    keys: dict[Statement, tuple[int, bool]] = {}
    is_narrow: dict[Loops, bool] = {}
    for statement, loops in domain.loops.items():
        if loops not in is_narrow:
            is_narrow[loops] = not set(held).issubset(domain.span(statement))
        depth, narrow = 0, is_narrow[loops]
        for operand in statement.operands:
            producer = operand.value.producer
            if isinstance(producer, Statement) and producer in keys:
                before, is_other = keys[producer][0], keys[producer][1] != narrow
                depth = max(depth, before + (is_other or bool(domain.reduced(producer))))
        keys[statement] = depth, narrow
    return keys


def stages_of(axes: TileAxes) -> list[MapStage]:
    """Return the stages of a kernel in order."""
    stages: dict[tuple[int, bool], MapStage] = {}
    for statement, key in stage_keys(axes.domain, axes.shape.held).items():
        stages.setdefault(key, MapStage(key[1])).statements.append(statement)
    return [stages[key] for key in sorted(stages)]


def kept_values(axes: TileAxes, stages: list[MapStage]) -> set[Value]:
    """Return the values that a later stage reads, which stay in tiles."""
    number = {s: k for k, stage in enumerate(stages) for s in stage.statements}
    kept = set()
    for s in axes.kernel.statements:
        for operand in s.operands:
            producer = operand.value.producer
            if producer in number and number[producer] != number[s]:
                kept.add(operand.value)
    return kept
