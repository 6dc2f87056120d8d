"""A fixture that runs a program in several processes, as torchrun does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from distributed.ranks import run_ranks


@pytest.fixture
def torchrun(tmp_path: Path) -> Callable[..., str]:
    """Runs a program's text, or a file, in `ranks` processes, and gives what they print."""

    def call(program: str | Path, *arguments: str, ranks: int = 2, **environment: str) -> str:
        file = program
        if isinstance(program, str):
            file = tmp_path / "program.py"
            file.write_text(program)
        return run_ranks(file, *arguments, ranks=ranks, folder=tmp_path, **environment)

    return call
