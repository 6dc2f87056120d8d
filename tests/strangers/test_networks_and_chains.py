"""A few cases of the campaigns of networks and of chains; the device of this process compiles for
one machine alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(("name", "count"), [("networks", 5), ("chains", 15)])
def test_first_cases(name: str, count: int) -> None:
    command = [sys.executable, str(HERE / f"{name}.py"), "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
