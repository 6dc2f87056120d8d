"""`import torch` alone makes the device known, and costs little more than before."""

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from ftm_lazy.torch_version.supported import SUPPORTED, built_for
from python_process import run_python

ROOT = Path(__file__).parents[2]


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
    )


def output(code: str, **environment: str) -> str:
    run = python(code, **environment)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_importing_ftm_lazy_first_is_the_same():
    code = "import ftm_lazy, torch; print(torch.device('ftm', 0), torch.ftm.device_count(), ftm_lazy.sync.__name__)"
    assert output(code) == "ftm:0 1 sync"
    assert output(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "ftm:0 1 sync"


LOADED = "print([name for name in sys.modules if name.startswith({prefixes})])"


def test_import_torch_is_enough_and_loads_neither_compiler_nor_mlir():
    code = f"""import sys, torch
{LOADED.format(prefixes=("torch_mlir", "ftm_backend.", "torch_xla"))}
print(torch.device('ftm'), torch.ftm.is_available())
torch.ones(3).to('ftm')
{LOADED.format(prefixes=("torch_mlir",))}"""
    assert output(code) == "[]\nftm True\n[]"


def test_wrong_setting_is_said_at_the_first_use():
    code = "import torch; print('imported', flush=True); torch.ones(3).to('ftm')"
    run = python(code, FTM_MACHINE="m7033")
    assert run.stdout == "imported\n" and run.returncode == 1
    assert (
        "SettingsError: FTM_MACHINE='m7033' is not valid; valid values: host, m7002, m7032, mt3000"
        in run.stderr
    )
    code = "import torch\nfor _ in range(2):\n    try: torch.ones(3, device='ftm')\n    except ValueError as error: print(error)\n"
    assert run_python(code, FTM_CORES="none").stdout.count("FTM_CORES='none'") == 2


def test_another_pytorch_is_refused():
    code = "import torch; torch.__version__ = '2.9.0'\ntry: import ftm_lazy\nexcept ImportError as error: print(error)"
    message = output(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert f"built for PyTorch {built_for()}" in message
    assert f"pip install torch=={built_for()}" in message


def test_pins_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = (ROOT / "requirements.txt").read_text().splitlines()
    assert any(f"torch=={version}" in locked for version in SUPPORTED)
    pinned = [
        line for extra in ("test", "lint") for line in project["optional-dependencies"][extra]
    ]
    assert all(line in locked for line in pinned if "==" in line)


@pytest.mark.parametrize("tool", ["ftm", "ftm-opt", "ftm-translate", "ftm-run"])
def test_tools_are_installed(tool):
    scripts = {point.name: point for point in metadata.entry_points(group="console_scripts")}
    assert callable(scripts[tool].load())
    run = subprocess.run(
        [Path(sys.executable).parent / tool, "--help"], capture_output=True, text=True
    )
    assert run.returncode == 0 and tool.replace("-", " ") in run.stdout
