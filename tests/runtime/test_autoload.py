"""An ftm that does not work in its environment leaves `import torch` alone, and raises the reason
when the device is used."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from ftm_lazy.torch_version.supported import built_for

ROOT = Path(__file__).parents[2]

CPU_PROGRAM = """
import torch
torch.manual_seed(0)
with torch.random.fork_rng():
    model = torch.nn.DataParallel(torch.nn.Linear(2, 2))
model(torch.ones(1, 2)).sum().backward()
print("trained", torch.ftm.is_available(), torch.ftm.device_count(), hasattr(torch.ftm, "synchronize"))
"""

FAULTS = {
    "another torch": (
        "ftm_lazy.device.registration",
        "sys.modules['torch'].__version__ = '2.99.0'",
        f"run `pip install torch=={built_for()}`",
    ),
    "recorder is not built": (
        "ftm_lazy._C",
        "raise ModuleNotFoundError('No module named ftm_lazy._C', name=name)",
        "run `make build`",
    ),
    "recorder does not load": (
        "ftm_lazy._C",
        "return damaged(name)",
        "run `pip install --no-build-isolation",
    ),
    "module is missing": (
        "ftm_lazy.integrations.multiprocessing",
        "raise ModuleNotFoundError(f'No module named {name!r}', name=name)",
        "'multiprocessing'",
    ),
    "interface of torch changed": (
        "ftm_lazy.device.torch_ftm",
        "del sys.modules['torch']._register_device_module",
        "_register_device_module",
    ),
}
"""Fault -> (module that fails while it is imported, how, part of the message)."""

IMPORT_HOOK = """
import importlib.machinery, importlib.util, pathlib, sys

def damaged(name):
    library = pathlib.Path(__file__).with_name("damaged.so")
    library.write_bytes(b"no library")
    return importlib.util.spec_from_file_location(name, library, loader=importlib.machinery.ExtensionFileLoader(name, str(library)))

class Fault:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            {action}

sys.meta_path.insert(0, Fault)
"""


def run(
    code: str, folder: Path, module: str, action: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a Python in which `action` happens when `module` is imported."""
    (folder / "sitecustomize.py").write_text(IMPORT_HOOK.format(module=module, action=action))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_import_torch_warns_in_one_line(fault, tmp_path):
    module, action, message = FAULTS[fault]
    done = run(CPU_PROGRAM, tmp_path, module, action)
    assert done.returncode == 0 and done.stdout == "trained False 0 False\n", done.stderr
    assert (
        done.stderr.count("\n") == 1
        and "the device ftm is not available: " in done.stderr
        and message in done.stderr
    )


USES = {
    "torch.ones(2, device='ftm')": "ImportError",
    "torch.ones(2).to('ftm')": "ImportError",
    "torch.autocast('ftm')": "ImportError",
    "torch.ones(2).ftm(0)": "ImportError",
    "torch.ftm.synchronize()": "AttributeError",
}
"""Use of the device -> the error that it raises."""


def test_each_first_use_raises_the_reason(tmp_path):
    """In a process of its own: a fork of one that has imported torch."""
    module, action, message = FAULTS["another torch"]
    code = f"""import gc, os, torch
gc.freeze()  # a child that ends leaves the parent's objects alone
for use in {list(USES)}:
    if not os.fork():
        exec(use)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)"""
    done = run(code, tmp_path, module, action)
    assert done.stdout == "1\n" * len(USES), done.stderr
    told = rf"^(\w+Error): .*the device ftm is not available: .*{re.escape(message)}"
    assert re.findall(told, done.stderr, re.MULTILINE) == list(USES.values())


def test_importing_ftm_lazy_raises_the_reason(tmp_path):
    module, action, message = FAULTS["another torch"]
    done = run("import ftm_lazy", tmp_path, module, action)
    assert done.returncode == 1 and message in done.stderr.splitlines()[-1]


def test_warnings_as_errors_do_not_break_the_import(tmp_path):
    module, action, message = FAULTS["another torch"]
    done = run(
        "import torch; print('imported')", tmp_path, module, action, "-W", "error::UserWarning"
    )
    assert done.stdout == "imported\n" and message in done.stderr


def test_missing_package_at_the_first_use(tmp_path):
    action = "raise ModuleNotFoundError('No module named numpy', name='numpy')"
    done = run(
        "import torch\nprint('imported')\ntorch.ones(2, device='ftm')", tmp_path, "numpy", action
    )
    assert done.stdout == "imported\n" and done.returncode == 1
    assert (
        "ImportError: ftm needs the package numpy, which is not installed: run `pip install 'numpy"
        in done.stderr.splitlines()[-1]
    )


def test_entry_point_is_outside_of_the_package():
    (point,) = (
        point for point in metadata.entry_points(group="torch.backends") if point.name == "ftm"
    )
    assert point.module == "ftm_autoload"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["torch.backends"]["ftm"] == point.value
