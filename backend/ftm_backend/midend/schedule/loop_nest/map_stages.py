"""Order of the maps of one tile: statements that one map can hold form a stage.

A map gives every element its value at once, so a statement that uses what another reduced along the
held axes comes in a later map, and so does one that changes between whole tiles and one value for
each free element (*narrow*).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.schedule.loop_nest.tile_axes import TileAxes


@dataclass(eq=False)
class MapStage:
    """Statements of one map; ``narrow``: over the free axes only."""

    narrow: bool
    statements: list[Statement] = field(default_factory=list)


def stages_of(axes: TileAxes) -> list[MapStage]:
    """The stages of a kernel in order."""
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
                later = bool(axes.reduced[producer]) or narrow[producer] != narrow[s]
                depth = max(depth, level[producer] + later)
        level[s] = depth
        stages.setdefault((depth, narrow[s]), MapStage(narrow[s])).statements.append(s)
    return [stages[key] for key in sorted(stages)]


def kept_values(axes: TileAxes, stages: list[MapStage]) -> set[Value]:
    """Values that a later stage reads: they stay in tiles."""
    number = {s: k for k, stage in enumerate(stages) for s in stage.statements}
    kept = set()
    for s in axes.kernel.statements:
        for operand in s.operands:
            producer = operand.value.producer
            if producer in number and number[producer] != number[s]:
                kept.add(operand.value)
    return kept
