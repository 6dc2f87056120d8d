"""docs/shapes.md is true: each example compiles as many programs as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import ftm_lazy
from ftm_lazy import _C, compiler, registration
from ftm_lazy.cache import DiskCache

TEXT = (Path(__file__).parents[2] / "docs" / "shapes.md").read_text()
EXAMPLES = re.findall(r"```python\n# (\d+) programs?(?:, (\d+) pieces)?\n(.*?)```", TEXT, re.DOTALL)


def counted() -> tuple[int, int]:
    counters = ftm_lazy.metrics.counters()
    return counters["compiles"], counters["pieces"]


@pytest.mark.parametrize(("programs", "pieces", "code"), EXAMPLES)
def test_examples_make_so_many_programs(programs: str, pieces: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registration.initialize()
    _C._sync(True)
    monkeypatch.setattr(compiler.bridge(), "_cache", DiskCache(None, 0))
    torch.ftm.empty_cache()
    before = counted()
    exec(code, {"torch": torch, "nn": nn})
    after = counted()
    assert (after[0] - before[0], after[1] - before[1]) == (int(programs), int(pieces or programs))


def test_every_example_is_counted() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") >= 8
