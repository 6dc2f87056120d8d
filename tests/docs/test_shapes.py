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
EXAMPLES = re.findall(r"```python\n# (\d+) programs?\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize(("programs", "code"), EXAMPLES)
def test_examples_make_so_many_programs(programs: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registration.initialize()
    _C._sync(True)
    monkeypatch.setattr(compiler.bridge(), "_cache", DiskCache(None, 0))
    torch.ftm.empty_cache()
    before = ftm_lazy.metrics.counters()["compiles"]
    exec(code, {"torch": torch, "nn": nn})
    assert ftm_lazy.metrics.counters()["compiles"] - before == int(programs)


def test_every_example_is_counted() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") >= 8
