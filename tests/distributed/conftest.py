"""A fixture that runs a program in several processes, as torchrun does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def torchrun(tmp_path: Path) -> Callable[..., str]:
    """Runs a program's text, or a file, in `ranks` processes, and gives what they print."""

    def call(
        program: str | Path, *arguments: str, ranks: int = 2, code: int = 0, **environment: str
    ) -> str:
        file = program
        if isinstance(program, str):
            file = tmp_path / "program.py"
            file.write_text(program)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(ranks), str(file), *arguments]
        done = subprocess.run(
            command,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return call
