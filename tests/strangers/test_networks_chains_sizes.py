"""A few cases of the campaigns that need a process of their own: presets compile for one machine
alone, and sizes without a cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(("name", "count"), [("networks", 5), ("chains", 15), ("sizes", 5)])
def test_first_cases(name: str, count: int) -> None:
    command = [sys.executable, str(HERE / f"{name}.py"), "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
