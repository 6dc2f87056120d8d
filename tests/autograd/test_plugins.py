"""Op records of other packages: found, loaded by both processes, part of the cache's key, with
clear error messages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ftm_backend import plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_op"
RUN = """
import torch, gated_op, ftm_lazy
x, gate = torch.randn(5, 7, dtype=torch.{dtype}), torch.randn(5, 7, dtype=torch.{dtype})
def run(device):
    a, b = (t.to(device).requires_grad_() for t in (x, gate))
    y = torch.ops.gated.rms_gate(a, b, 1e-5)
    return y, *torch.autograd.grad((y * y).sum(), (a, b))
for want, got in zip(run("cpu"), run("ftm"), strict=True):
    torch.testing.assert_close(got.cpu(), want)
counters = ftm_lazy.metrics.counters()
assert not [n for n, c in counters.items() if c and n.startswith(("fallback", "compile_fail"))], counters
print({{n: counters[n] for n in ("compiles", "cache_hits_disk")}})
"""


def install(
    place: Path, name: str = "ftm-gated-op", module: str = "gated_records", version: str = "1.0"
) -> None:
    """What an installer leaves: a dist-info directory with entry points."""
    info = place / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\ngated = {module}\n")


def python(place: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = (
        os.environ
        | {"PYTHONPATH": path, "FTM_CACHE_DIR": str(place / "cache"), "FTM_CORES": "1"}
        | environment
    )
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of packages with the example installed in it."""
    for source in EXAMPLE.glob("*.py"):
        shutil.copy(source, tmp_path)
    install(tmp_path)
    return tmp_path


def test_the_example_is_native_and_cached(place: Path) -> None:
    """No fallback, forward and backward; the second process finds the programs, unless the record
    is edited."""
    for edit, told in (
        ("", "'cache_hits_disk': 0"),
        ("", "'compiles': 0"),
        ("# edited", "'cache_hits_disk': 0"),
    ):
        record = place / "gated_records.py"
        record.write_text(record.read_text() + edit)
        done = python(place, RUN.format(dtype="float64"), FTM_STRICT="1")
        assert done.returncode == 0, done.stderr
        assert told in done.stdout


def loaded(place: Path, code: str = "import ftm_backend.frontend.ops") -> str:
    """The last line that a process without torch prints when it loads the records."""
    done = python(place, code)
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


def test_mistakes(place: Path) -> None:
    named = "the op records of ftm-gated-op 1.0 (entry point gated = gated_records in the group ftm.ops) cannot be loaded"
    record = place / "gated_records.py"
    good = record.read_text()
    for text, told in (
        (good.replace("gated::rms_gate", "aten::relu"), "aten::relu has two records"),
        (
            good + "\nimport torch\n",
            "it imports torch, which the compile server must not load",
        ),
        (good.replace("(b: Any, x", "(x"), "the first parameter of a lowering is the builder, b"),
        ("1 / 0", "division by zero"),
    ):
        record.write_text(text)
        message = loaded(place)
        assert named in message
        assert told in message
        assert "repair or uninstall ftm-gated-op 1.0" in message
    record.unlink()
    assert "No module named 'gated_records'" in loaded(place)


def test_a_broken_plugin_says_so_where_the_device_is_used(place: Path) -> None:
    (place / "gated_records.py").write_text("raise RuntimeError('half installed')")
    assert "half installed" in loaded(place, "import torch; torch.ones(2, device='ftm')")


def test_two_packages_with_one_op(place: Path) -> None:
    shutil.copy(place / "gated_records.py", place / "other_records.py")
    install(place, "other", "other_records")
    message = loaded(place)
    assert "the op records of other 1.0" in message
    assert "gated::rms_gate has two records" in message


def test_identity(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Source and version count, a package's other files too; nothing is imported for it."""
    assert plugins.identity() == ""
    monkeypatch.syspath_prepend(str(place))
    seen = {plugins.identity()}
    (place / "gated_records.py").write_text("1 / 0")
    seen.add(plugins.identity())
    next(place.glob("*.dist-info")).rename(place / "old")
    install(place, version="2.0")
    seen.add(plugins.identity())
    shutil.rmtree(next(place.glob("*.dist-info")))
    (place / "pack" / "records").mkdir(parents=True)
    (place / "pack" / "__init__.py").write_text("1 / 0")
    install(place, "pack", "pack.records")
    for name in ("__init__", "more"):
        (place / "pack" / "records" / f"{name}.py").write_text("x = 1")
        seen.add(plugins.identity())
    assert len(seen) == 5
