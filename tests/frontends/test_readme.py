"""The README's example of each door runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"

_ENTRY_POINT = """
import torch
from ftm_lazy.frontends.dynamo import backend
if "ftm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(backend, name="ftm")
"""  # for a checkout that was not installed since the entry point came


def test_every_door_of_the_readme(tmp_path: Path) -> None:
    section = README.read_text().partition("## Other ways in")[2]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    check = "\nassert abs(y - model(x).detach().numpy()).max() < 1e-5\n"
    done = subprocess.run(
        [sys.executable, "-c", _ENTRY_POINT + program + check], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "tosa." in done.stdout and "all agree with eager PyTorch" in done.stdout


def test_the_entry_point_is_declared() -> None:
    import tomllib

    project = tomllib.loads((README.parent / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["torch_dynamo_backends"] == {"ftm": "ftm_lazy.frontends.dynamo:backend"}
