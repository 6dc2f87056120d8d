"""Fixtures that run programs in new processes, in the three supported ways."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs a program's text by ``python [options] file [arguments]``, and gives its stdout."""

    def call(
        program: str,
        *options: str,
        arguments: tuple[str, ...] = (),
        code: int = 0,
        **environment: str,
    ) -> str:
        file = tmp_path / "program.py"
        file.write_text(program)
        command = [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            *options,
            str(file),
            *arguments,
        ]
        done = subprocess.run(
            command,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return call


UNCHANGED = ("-m", "ftm_lazy.torch_xla")
"""The options that run a program unchanged."""
