"""Whole torch_xla programs, run in the three ways, have the CPU's losses over 25 steps.

``python examples/torch_xla_programs/compare.py --steps 500`` is a longer run of the same programs.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

STEPS = 25
COMPARE = Path(__file__).parents[2] / "examples" / "torch_xla_programs" / "compare.py"


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare", COMPARE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def expected(compare: ModuleType) -> dict[str, list[float]]:
    return compare.losses_by("cpu", compare.PROGRAMS, STEPS)


@pytest.mark.parametrize("way", ["1", "2", "3"])
def test_losses(compare, expected, way, pytestconfig):
    assert len(expected) == 6
    programs = compare.PROGRAMS
    if way != "3" and not pytestconfig.getoption("--all-combinations"):
        programs = programs[int(way) - 1 :: 2]  # the ways 1 and 2 run the same package
    losses = compare.losses_by(way, programs, STEPS)
    for program, values in losses.items():
        assert compare.difference(values, expected[program]) < 1e-3, program
        assert sum(values[-5:]) < 0.9 * sum(values[:5]), program  # it learns
