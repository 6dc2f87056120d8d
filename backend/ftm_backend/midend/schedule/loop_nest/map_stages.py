"""Stages of a tile: statements that one map computes together, in order.

A map computes all results of an element at once. So a statement needs a later map if it uses a
value that another statement reduces along the held axes (softmax divides by a sum), or if one of
the two works on whole tiles and the other one on one value per free element (*narrow*).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.schedule.loop_nest.merged_axes import TileAxes


@dataclass(eq=False)
class MapStage:
    """Statements of one map. ``narrow``: the map covers the free axes only."""

    narrow: bool
    statements: list[Statement] = field(default_factory=list)


def stages_of(axes: TileAxes) -> list[MapStage]:
    """Return the stages of a kernel in order."""
    everything = frozenset(axes.axes)
    held = any(a.leaves[0] in axes.shape.held for a in axes.axes)
    level: dict[Statement, int] = {}
    narrow: dict[Statement, bool] = {}
    stages: dict[tuple[int, bool], MapStage] = {}
    for s in axes.kernel.statements:
        narrow[s] = axes.shape.resident and held and axes.spans[s] != everything
        depth = 0
        for operand in s.operands:
            producer = operand.value.producer
            if producer in level:
                needs_later_map = bool(axes.reduced[producer]) or narrow[producer] != narrow[s]
                depth = max(depth, level[producer] + needs_later_map)
        level[s] = depth
        stages.setdefault((depth, narrow[s]), MapStage(narrow[s])).statements.append(s)
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
