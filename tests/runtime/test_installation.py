"""An installation: what it requires, which packages may be missing, and the check before the
recorder loads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import ftm_lazy
from ftm_backend import optional_packages
from ftm_lazy.torch_version import aot_metadata, supported

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run_without(
    names: tuple[str, ...], code: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a program without some packages, which its compiler processes lack too.

    Args:
        names: Modules whose import fails.
        code: The program.
        folder: An empty folder, for modules in place of those.
    """
    for name in names:
        failure = f"ModuleNotFoundError('No module named {name}', name={name!r})"
        (folder / f"{name}.py").write_text(f"raise {failure}\n")
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_metadata() -> None:
    found = metadata.metadata("torch-ftm")
    assert found["Version"] == ftm_lazy.__version__
    assert f"torch=={supported.built_for()}" in found.get_all("Requires-Dist")
    assert not re.search(r"\]\((?!https?://|#)", found.get_payload()), "a relative link on PyPI"


def test_missing_packages_name_extras_that_exist() -> None:
    extras = PROJECT["optional-dependencies"]
    for package, argument in optional_packages.PACKAGES.values():
        extra = re.fullmatch(r"torch-ftm\[(\w+)\]", argument)
        assert argument == package if extra is None else extras[extra[1]][0].startswith(package)


def test_a_training_step_compiles_and_shows_its_stages_without_mlir(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    done = run_without(
        ("torch_mlir", "libcst", "safetensors"),
        f"""
import os
os.environ["FTM_CACHE_DIR"] = "off"
os.environ["FTM_DUMP"] = {str(dumps)!r}
import torch
model = torch.nn.Linear(4, 2).to("ftm")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(3, 4).to("ftm")).square().mean()
loss.backward()
optimizer.step()
print(loss.item() >= 0)

import ftm_lazy
result = torch.ones(3, 4).to("ftm") + 1
assert "VADD" in ftm_lazy.debug.text(result, "asm")
assert ftm_lazy.debug.profile(result).cycles > 0
try:
    ftm_lazy.debug.text(result, "torch")
except ImportError as error:
    print(error)
""",
        tmp_path,
    )
    assert done.stdout == (
        "True\nthe text of stage 'torch' needs the package torch-mlir, which is not installed:"
        " run `pip install 'torch-ftm[mlir]'`\n"
    ), done.stderr
    assert done.stderr == ""
    dumped = {path.name for path in dumps.rglob("0?_*")}
    assert {"00_trace.trace", "02_linalg.mlir"} <= dumped and "01_torch.mlir" not in dumped


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("ftm_backend.tools.ftm_opt", ["--verify", "x.mlir"], "mlir"),
        ("ftm_lazy.tools.ftm_migrate", ["x.mlir"], "migrate"),
    ],
)
def test_a_missing_package_is_one_line(
    module: str, arguments: list[str], extra: str, tmp_path: Path
) -> None:
    (tmp_path / "x.mlir").write_text("module {}\n")
    given = [str(tmp_path / word) if word.endswith(".mlir") else word for word in arguments]
    done = run_without(
        ("torch_mlir", "libcst"),
        f"import sys\nfrom {module} import main\nsys.exit(main({given!r}))",
        tmp_path,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert f"run `pip install 'torch-ftm[{extra}]'`" in done.stderr


def test_the_build_record_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supported, "BUILD_RECORD", tmp_path / "build_record.json")
    assert "make build" in supported.mismatch("2.13.0")
    (tmp_path / "build_record.json").write_text(json.dumps({"torch": "2.13.0"}))
    assert supported.mismatch("2.13.0+cu130") is None
    assert "pip install torch-ftm torch==2.14.1" in supported.mismatch("2.14.1+cpu")
    assert "does not support" in supported.mismatch("9.9.9")
    assert "pip install torch==2.13.0" in supported.mismatch("9.9.9")


def test_wheels_for_a_newer_pytorch_have_higher_versions() -> None:
    """pip compares versions as numbers, and takes the highest that fits the installed PyTorch."""
    versions = [supported.wheel_version("0.1.0", f"2.{n}.1+cpu") for n in (9, 14)]
    assert versions == ["0.1.0.post20901", "0.1.0.post21401"]


def test_private_names_are_in_one_place() -> None:
    """Outside of torch_xla's names, only ``torch_version`` uses ``torch._C`` and functorch."""
    private = re.compile(r"torch\._C\._|torch\._functorch|from torch\._C ")
    wrong = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "ftm_lazy").rglob("*.py")
        if not {"torch_xla", "torch_version"} & set(path.parts) and private.search(path.read_text())
    ]
    assert wrong == []


def test_every_field_of_aot_metadata_is_known() -> None:
    assert set() == aot_metadata._UNKNOWN


def test_an_unknown_field_takes_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aot_metadata, "_UNKNOWN", {"new_field"})
    assert not aot_metadata.is_plain(None, False)
