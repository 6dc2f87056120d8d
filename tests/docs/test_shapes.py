"""docs/shapes.md is true: each example makes as many programs as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from ftm_lazy import _C, registration

TEXT = (Path(__file__).parents[2] / "docs" / "shapes.md").read_text()
EXAMPLES = re.findall(r"```python\n# (\d+) programs?\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize(("programs", "code"), EXAMPLES)
def test_examples_make_so_many_programs(programs: str, code: str) -> None:
    """Counted by the recorder; the operations run on the CPU, since nothing here is about how they are compiled."""
    registration.initialize()
    before = _C._executor()
    _C._sync(True)
    _C._set_executor("reference")
    _C._clear_programs()
    try:
        exec(code, {"torch": torch, "nn": nn})
        assert _C._program_count() == int(programs)
    finally:
        _C._sync(True)
        _C._set_executor(before)


def test_every_example_is_counted() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") >= 8
