"""The README's example of each door runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"

_ENTRY_POINT = """
import torch
from ftm_lazy.frontends.dynamo import backend
if "ftm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(backend, name="ftm")
"""  # for a checkout that was not installed since the entry point came

_CHECK = "\nassert abs(torch.as_tensor(y) - expected).max() < 1e-5, y"


def _blocks() -> tuple[str, str]:
    """The program and the commands of the section."""
    section = README.read_text().partition("## Other frontends")[2].partition("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], re.search(
        r"```sh\n(.*?)```", section, re.DOTALL
    )[1]


def _run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(
    shutil.which("make") is None or shutil.which("cc") is None,
    reason="a C compiler and make are needed",
)
def test_every_door_of_the_readme(tmp_path: Path) -> None:
    """The program, each of whose results is compared with eager PyTorch's, and then the commands on
    what it has written."""
    program, commands = _blocks()
    given = re.search(r"^model, x = .*$", program, re.MULTILINE)[0]
    checked, doors = re.subn(
        r"^y = .*$", lambda line: line[0] + _CHECK, program, flags=re.MULTILINE
    )
    assert doors == 6
    keep = "\nnumpy.save('expected.npy', (expected := model(x).detach()).numpy())"
    text = _run(
        [sys.executable, "-c", _ENTRY_POINT + checked.replace(given, given + keep)], tmp_path
    )
    assert "tosa." in text and "all agree with eager PyTorch" in text
    assert (tmp_path / "kernel.lan").exists() and (tmp_path / "kernel.npz").exists()
    assert list((tmp_path / "compiled").glob("0000_*/*.lan"))

    examples = tmp_path / "examples"
    shutil.copytree(
        README.parent / "examples" / "deploy_c",
        examples / "deploy_c",
        ignore=shutil.ignore_patterns("run_model"),
    )
    np.load(tmp_path / "x.npy").tofile(tmp_path / "x.raw")
    machine = README.parent / "backend" / "ftm_backend" / "machine"
    shown = _run(
        ["bash", "-e", "-c", commands.replace("make -C", f"make MACHINE={machine} -C")], tmp_path
    )
    assert shown.endswith("compatible\n") and (tmp_path / "model.lan").exists()
    expected = np.load(tmp_path / "expected.npy")
    np.testing.assert_allclose(np.load(tmp_path / "results" / "output.npy"), expected, atol=1e-5)
    np.testing.assert_allclose(
        np.fromfile(tmp_path / "y.raw", np.float32).reshape(2, 4), expected, atol=1e-5
    )


def test_the_entry_point_is_declared() -> None:
    import tomllib

    project = tomllib.loads((README.parent / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["torch_dynamo_backends"] == {
        "ftm": "ftm_lazy.frontends.dynamo:backend"
    }
