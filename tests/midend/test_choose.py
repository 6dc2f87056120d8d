"""Decisions: the cheapest alternative, unless the user wants another one that is possible."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from ftm_backend.midend.schedule.choose import choose, explaining, pays
from ftm_backend.midend.transforms.fusion.rules import RULES
from ftm_backend.target import presets, tuning
from ftm_backend.tools import ftm_opt

MACHINE = presets.load("m7032")
PASSES = Path(__file__).parents[1] / "passes"


def test_the_cheapest_alternative_is_taken() -> None:
    assert choose(MACHINE, "fuse-conv-prologue", "a", {"keep": 2.0, "fuse": 1.0}) == "fuse"
    assert not pays(MACHINE, "fuse-conv-prologue", "a", keep=1.0, fuse=1.0)


def test_the_user_decides_where_it_is_possible() -> None:
    tuned = replace(MACHINE, choices=tuning.parse("fuse-conv-prologue=fuse"))
    assert pays(tuned, "fuse-conv-prologue", "a", keep=1.0, fuse=2.0)
    assert not pays(tuned, "fuse-conv-prologue", "a", keep=1.0, fuse=inf)
    assert not pays(tuned, "fuse-gemm-prologue", "a", keep=1.0, fuse=2.0)


def test_a_choice_is_explained() -> None:
    with explaining() as choices:
        pays(MACHINE, "fuse-conv-prologue", "kernel_1", keep=1.0, fuse=inf)
    (found,) = map(str, choices)
    assert found == "fuse-conv-prologue: kernel_1: keep; cycles: keep 1, fuse impossible"


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="valid decisions: .*fuse-conv-prologue"):
        tuning.parse("fuse-everything=fuse")
    with pytest.raises(ValueError, match="valid alternatives of fuse-conv-prologue: keep, fuse"):
        tuning.parse("fuse-conv-prologue=yes")


def test_choices_of_a_text_have_one_order() -> None:
    first = "fuse-gemm-prologue=keep, fuse-conv-prologue=fuse"
    assert tuning.parse(first) == tuning.parse("fuse-conv-prologue=fuse,fuse-gemm-prologue=keep")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_an_example_of_each_rule_fuses_unless_the_user_keeps_it_apart(
    rule: object, capsys: pytest.CaptureFixture[str]
) -> None:
    name = rule.name  # type: ignore[attr-defined]
    path = PASSES / f"{name}.mlir"
    (line,) = [text for text in path.read_text().splitlines() if text.startswith("// RUN")][:1]
    machine = line.split("ftm-opt ")[1].split(" %s")[0].split()
    assert ftm_opt.main([*machine, "--explain", str(path)]) == 0
    fused = capsys.readouterr()
    assert f"{name}: " in fused.err and ": fuse; cycles: fuse " in fused.err
    assert ftm_opt.main([*machine, "--tune", f"{name}=keep", str(path)]) == 0
    assert capsys.readouterr().out != fused.out
