"""With ftm-torch-xla installed, libraries use their XLA code paths and get the CPU's losses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = Path(__file__).with_name("libraries.py")

NAMES = """
import importlib.metadata, importlib.util, torch
assert importlib.metadata.version("torch_xla") == importlib.metadata.version("torch-xla") == "2.9.0"
import torch_xla
print(torch_xla.device(), torch.ones(2, device="xla").sum().item(), "openxla" in torch._dynamo.list_backends())
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """The Python of an environment that has what this one has, and ftm-torch-xla."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False, symlinks=True)
    packages = next(directory.glob("lib/python*/site-packages"))
    (packages / "shared.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n{ROOT}\n{ROOT / 'backend'}\n"
    )
    source = directory / "ftm-torch-xla"  # pip builds where the source is
    shutil.copytree(
        ROOT / "packaging" / "ftm-torch-xla",
        source,
        ignore=shutil.ignore_patterns("build", "*.egg-info"),
    )
    found = directory / "bin" / "python"
    install = [
        found, "-m", "pip", "install", "--no-deps", "--no-build-isolation",
        "--disable-pip-version-check", "--no-index", source,
    ]  # fmt: skip
    done = subprocess.run(install, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return found


def test_the_names_are_there(python):
    done = subprocess.run([python, "-c", NAMES], capture_output=True, text=True, timeout=120)
    assert done.stdout == "xla:0 2.0 True\n", done.stderr


def losses(
    command: list[str | Path], directory: Path
) -> dict[str, tuple[str, list[float], list[float]]]:
    done = subprocess.run(
        [*command, LIBRARIES, directory, directory.name],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def both(python, tmp_path_factory):
    directory = tmp_path_factory.mktemp("libraries")
    return losses([python], directory / "xla"), losses([sys.executable], directory / "cpu")


@pytest.mark.parametrize("library", ["transformers", "accelerate", "lightning"])
def test_it_trains_saves_and_resumes(both, library):
    here, on_cpu = (each[library] for each in both)
    assert here[0].startswith("xla") and on_cpu[0] == "cpu"
    assert here[1] == pytest.approx(on_cpu[1], abs=1e-3) and here[1][-1] < here[1][0]
    half = len(here[1]) // 2
    assert here[2] == pytest.approx(here[1][half:], abs=1e-6) and on_cpu[2] == pytest.approx(
        on_cpu[1][half:], abs=1e-6
    )
