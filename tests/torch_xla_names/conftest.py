"""Fixtures that run programs in new processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ftm_lazy.torch_xla.__main__ import environment as unchanged_environment
from python_process import Program

WARNINGS = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs a program's text by ``python file [arguments]``, and gives its stdout."""

    def call(
        program: str,
        arguments: tuple[str, ...] = (),
        code: int = 0,
        at_import: dict[str, str] = WARNINGS,
        **environment: str,
    ) -> str:
        file = tmp_path / "program.py"
        file.write_text(program)
        done = Program(
            file, arguments, environment=environment, folder=tmp_path, at_import=at_import
        ).wait(300)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    return call


@pytest.fixture
def run_unchanged(run: Callable[..., str]) -> Callable[..., str]:
    """The same for a program that imports ``torch_xla``.

    Its process has the variables that ``python -m ftm_lazy.torch_xla`` sets before it starts the
    program. `test_as_a_module_and_in_children` runs ``-m ftm_lazy.torch_xla`` itself.
    """
    set_before = dict(unchanged_environment().items() - os.environ.items())
    return partial(run, at_import=WARNINGS | set_before)
