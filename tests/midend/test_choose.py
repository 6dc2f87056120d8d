"""Decisions: the cheapest alternative, unless the user wants another one that is possible."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from ftm_backend.midend.algorithms.registry import NAMED_OPERATIONS
from ftm_backend.midend.schedule.choose_by_cost import choose, explaining, pays
from ftm_backend.midend.transforms.fusion.rules import RULES
from ftm_backend.target import presets, tuning_overrides
from ftm_backend.tools import ftm_opt

MACHINE = presets.load("m7032")
PASSES = Path(__file__).parents[1] / "passes"


def test_the_cheapest_alternative_is_taken() -> None:
    assert choose(MACHINE, "fuse-conv-prologue", "a", {"keep": 2.0, "fuse": 1.0}) == "fuse"
    assert not pays(MACHINE, "fuse-conv-prologue", "a", keep=1.0, fuse=1.0)


def test_the_user_decides_where_it_is_possible() -> None:
    tuned = replace(MACHINE, choices=tuning_overrides.parse("fuse-conv-prologue=fuse"))
    assert pays(tuned, "fuse-conv-prologue", "a", keep=1.0, fuse=2.0)
    assert not pays(tuned, "fuse-conv-prologue", "a", keep=1.0, fuse=inf)
    assert not pays(tuned, "fuse-gemm-prologue", "a", keep=1.0, fuse=2.0)


def test_a_choice_is_explained() -> None:
    with explaining() as choices:
        pays(MACHINE, "fuse-conv-prologue", "kernel_1", keep=1.0, fuse=inf)
    (found,) = map(str, choices)
    assert found == "fuse-conv-prologue: kernel_1: keep; cycles: keep 1, fuse impossible"


def test_an_operation_without_another_algorithm_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the host, Winograd's 4x4 tiles are only taken on request, but have a price."""
    path = str(PASSES / "choose-algorithm.conv2d.mlir")
    assert ftm_opt.main(["--choose-algorithm", "--explain", "--machine", "host", path]) == 0
    words = capsys.readouterr().err
    assert re.search(r"conv2d: .*; cycles: .*winograd-4x4 \d+ \(on request\)", words), words


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="valid decisions: .*fuse-conv-prologue"):
        tuning_overrides.parse("fuse-everything=fuse")
    with pytest.raises(ValueError, match="valid alternatives of fuse-conv-prologue: keep, fuse"):
        tuning_overrides.parse("fuse-conv-prologue=yes")


def test_choices_of_a_text_have_one_order() -> None:
    first = "fuse-gemm-prologue=keep, fuse-conv-prologue=fuse"
    assert tuning_overrides.parse(first) == tuning_overrides.parse(
        "fuse-conv-prologue=fuse,fuse-gemm-prologue=keep"
    )


def test_every_fusion_rule_and_every_algorithm_can_be_chosen() -> None:
    assert {rule.name for rule in RULES} < tuning_overrides.DECISIONS.keys()
    for named in NAMED_OPERATIONS.values():
        names = tuple(each.name for each in named.algorithms)
        assert tuning_overrides.DECISIONS[named.decision] == names


@pytest.mark.parametrize("decision", tuning_overrides.DECISIONS)
def test_a_pass_explains_its_decision_and_the_user_can_take_the_other_one(
    decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the example of each pass the cost model decides against the default."""
    default, *others = tuning_overrides.DECISIONS[decision]
    names = decision, f"choose-algorithm.{decision}", "choose-algorithm"
    path = next(path for name in names if (path := PASSES / f"{name}.mlir").exists())
    (line, *_) = [text for text in path.read_text().splitlines() if text.startswith("// RUN")]
    arguments = line.split("ftm-opt ")[1].split(" %s")[0].split()
    assert ftm_opt.main([*arguments, "--explain", str(path)]) == 0
    chosen = capsys.readouterr()
    (words, *_) = [text for text in chosen.err.splitlines() if text.startswith(f"{decision}: ")]
    decided, costs = re.fullmatch(r".*: (\S+); cycles: (.*)", words).groups()
    cycles = {name: int(number) for name, number in re.findall(r"(\S+) (\d+)(?:,|$)", costs)}
    assert decided in others and default in cycles
    assert decided == min(cycles, key=cycles.__getitem__) == costs.split()[0]
    assert ftm_opt.main([*arguments, "--tune", f"{decision}={default}", str(path)]) == 0
    assert capsys.readouterr().out != chosen.out
