"""Fixtures that run programs in new processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ftm_lazy.torch_xla.__main__ import environment as unchanged_environment


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs a program's text by ``python file [arguments]``, and gives its stdout."""

    def call(
        program: str, arguments: tuple[str, ...] = (), code: int = 0, **environment: str
    ) -> str:
        file = tmp_path / "program.py"
        file.write_text(program)
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", str(file), *arguments],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return call


@pytest.fixture
def run_unchanged(run: Callable[..., str]) -> Callable[..., str]:
    """The same for a program that imports ``torch_xla``.

    Runs the command that ``python -m ftm_lazy.torch_xla`` replaces itself by, which saves one
    import of PyTorch. `test_as_a_module_and_in_children` runs ``-m ftm_lazy.torch_xla`` itself.
    """
    return lambda program, **options: run(program, **(unchanged_environment() | options))
