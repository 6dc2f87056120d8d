"""The panel planner prunes only plans that cannot be the cheapest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

import pytest

from ftm_backend.midend.schedule.gemm import panel_search, planner
from ftm_backend.midend.schedule.gemm.panel_choice import PanelChoice
from ftm_backend.midend.schedule.gemm.panel_cost import PricedPlan, price
from ftm_backend.midend.schedule.gemm.panel_search_space import PanelSearchSpace
from ftm_backend.midend.schedule.gemm.tiling_problem import (
    EpilogueTraffic,
    OperandTraffic,
    TilingProblem,
)
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters

M7032 = presets.load("m7032")


class Whole(PanelSearchSpace):
    """A grid that is searched whatever its least cycles are."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.least_cycles = self.least_cycles if self.least_cycles == inf else 0.0


def price_all(
    grid: PanelSearchSpace, choices: Sequence[PanelChoice], limit: float = inf
) -> PricedPlan:
    """Prices everything."""
    del limit
    return price(grid, choices)


def problem(draw: random.Random) -> TilingProblem:
    """A product of some shape whose operands lie somehow."""
    dtype = draw.choice(["f32", "f64", "f16"])

    def extents(most: int) -> tuple[int, ...]:
        first = int(2 ** draw.uniform(0, most))
        return (first,) if draw.random() < 0.6 else (first, draw.choice([2, 3, 8]))

    def operand(rows: tuple[int, ...], columns: tuple[int, ...], kind: str) -> OperandTraffic:
        turned = draw.random() < 0.5
        runs = (prod(rows), 0) if turned else (0, prod(columns))
        return OperandTraffic(kind, runs, draw.random() < 0.5, (turned, not turned))

    m, n, k = extents(12), extents(12), extents(12)
    accumulator = "f32" if dtype == "f16" else dtype
    return TilingProblem(
        () if draw.random() < 0.6 else extents(5),
        m,
        n,
        k,
        operand(m, k, dtype),
        operand(k, n, dtype),
        operand(m, n, accumulator),
        accumulator,
        epilogue=EpilogueTraffic(draw.choice([0, 1, 3]), draw.choice([0, 4, 12])),
    )


def machine(draw: random.Random) -> MachineParameters:
    """One with little room, or the target, with some cores."""
    tight = replace(M7032, am_bytes=32768, sm_bytes=4096, gsm_bytes=65536)
    return replace(draw.choice([M7032, M7032, tight]), cores=draw.choice([1, 3, 8]))


@pytest.mark.parametrize("seed", range(25))
def test_the_cheapest_of_all_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    given = problem(draw), machine(draw)
    found = panel_search.panel_schedule.__wrapped__(*given)
    assert found is None or panel_search.lower_bound(*given) <= found.cycles
    panel_search._coarse.cache_clear()
    monkeypatch.setattr(panel_search, "PanelSearchSpace", Whole)
    monkeypatch.setattr(panel_search, "price", price_all)
    assert found == panel_search.panel_schedule.__wrapped__(*given)
    panel_search._coarse.cache_clear()


@pytest.mark.parametrize("seed", range(25))
def test_the_cheapest_of_several_problems_is_found_without_searching_all(seed: int) -> None:
    draw = random.Random(1000 + seed)
    several = [problem(draw) for _ in range(4)]
    plans = [panel_search.panel_schedule(each, M7032) for each in several]
    cycles = [plan.cycles if plan else inf for plan in plans]
    number = cycles.index(min(cycles))
    assert planner.cheapest(several, M7032) == (number, plans[number])
