"""The planner of contractions: the cheapest schedule of one problem, and of several.

The machine gives the depth of the schedule. The search for depth 2 is ``panel_search``, that for
depth 1 ``synchronous_search``, which also serves symbolic sizes (``dynamic_tiling``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.midend.schedule.gemm import panel_search
from ftm_backend.midend.schedule.gemm.dynamic_tiling import dynamic_schedule
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import TilingProblem
from ftm_backend.target.presets import MachineParameters

__all__ = ["cheapest", "fitting_schedule", "lower_bound"]


def fitting_schedule(problem: TilingProblem, machine: MachineParameters) -> Schedule | None:
    """Return the cheapest schedule of ``problem``; None if no tiles fit the scratchpads."""
    search = panel_search.panel_schedule if problem.depth > 1 else dynamic_schedule
    return search(problem, machine)


def lower_bound(problem: TilingProblem, machine: MachineParameters) -> float:
    """Return a lower bound of the cycles of all schedules."""
    return panel_search.lower_bound(problem, machine) if problem.depth > 1 else 0.0


def cheapest(
    problems: Sequence[TilingProblem], machine: MachineParameters
) -> tuple[int, Schedule] | None:
    """Return the index of the problem with the cheapest schedule, and the schedule.

    Problems whose lower bound exceeds another one's schedule are not searched.

    Returns:
        None if no tiles fit the scratchpads.
    """
    low = [lower_bound(problem, machine) if len(problems) > 1 else 0.0 for problem in problems]
    best: tuple[float, int, Schedule] | None = None
    for number in sorted(range(len(problems)), key=low.__getitem__):
        if best is not None and low[number] > best[0]:
            break
        found = fitting_schedule(problems[number], machine)
        if found is not None and (best is None or (found.cycles, number) < best[:2]):
            best = found.cycles, number, found
    return None if best is None else best[1:]
