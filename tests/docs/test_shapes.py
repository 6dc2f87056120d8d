"""docs/shapes.md is true: each example compiles as many programs as it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "shapes.md").read_text()
EXAMPLES = re.findall(r"```python\n# (\d+) programs?(?:, (\d+) pieces)?\n(.*?)```", TEXT, re.DOTALL)

COUNT = """
import json, sys
import torch
from torch import nn
import ftm_lazy

found = []
for code in json.load(sys.stdin):
    torch.ftm.synchronize()
    torch.ftm.empty_cache()
    before = ftm_lazy.metrics.counters()
    exec(code, {"torch": torch, "nn": nn})
    after = ftm_lazy.metrics.counters()
    found.append([after[name] - before.get(name, 0) for name in ("compiles", "pieces")])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def counted() -> list[list[int]]:
    """Programs and pieces of each example, in a process that ran nothing before and has no disk
    cache."""
    ran = subprocess.run(
        [sys.executable, "-c", COUNT],
        input=json.dumps([code for _, _, code in EXAMPLES]),
        capture_output=True,
        text=True,
        env={**os.environ, "FTM_CACHE_DIR": "off"},
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_examples_make_so_many_programs(example: int, counted: list[list[int]]) -> None:
    programs, pieces, code = EXAMPLES[example]
    assert counted[example] == [int(programs), int(pieces or programs)], code


def test_every_example_is_counted() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") >= 8
