"""A few cases of the campaigns that need a process of their own: presets compile for one machine
alone, and sizes without a cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(
    ("name", "seed", "count"),
    [
        ("networks", 1, 5),
        # The gradients of attention by hand compute a mask that another kernel keeps in memory.
        ("networks", 200053, 1),
        ("chains", 1, 15),
        ("sizes", 1, 5),
    ],
)
def test_cases(name: str, seed: int, count: int) -> None:
    command = [sys.executable, str(HERE / f"{name}.py"), f"--seed={seed}", f"--count={count}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
