"""``packaging/check_wheel.py``: which packages count as ftm's size."""

from __future__ import annotations

import argparse
import runpy
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "check_wheel.py"
VERSION = "2.13.0"


def write_wheel(folder: Path, name: str, requires: str = "", size: int = 0) -> Path:
    """Write a wheel of one file of `size` zeros, which compress to nearly nothing."""
    path, info = folder / f"{name}-{VERSION}-py3-none-any.whl", f"{name}-{VERSION}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n"]
    lines += [f"Requires-Dist: {word}\n" for word in requires.split()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.bin", bytes(size))
        archive.writestr(f"{info}/METADATA", "".join(lines))
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.parametrize(("owner", "status"), [("torch", 0), ("torch_ftm", 1)])
def test_only_what_pytorch_does_not_require_counts(
    owner: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A linked PyTorch lacks a large package that it requires, as a CUDA build without CUDA."""
    check = runpy.run_path(str(SCRIPT))["_check"]
    monkeypatch.setitem(check.__globals__, "_run_programs", lambda *_: 0)
    wheels, linked = tmp_path / "wheels", tmp_path / "linked"
    wheels.mkdir()
    large = {owner: "large_libraries"}
    write_wheel(wheels, "numpy")
    write_wheel(wheels, "large_libraries", size=int(1e6 * check.__globals__["LARGEST"]) + 1)
    with zipfile.ZipFile(write_wheel(tmp_path, "torch", large.get("torch", ""))) as archive:
        archive.extractall(linked)
    own = write_wheel(wheels, "torch_ftm", f"torch=={VERSION} {large.get('torch_ftm', '')}")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    given = argparse.Namespace(wheel=own, python=sys.executable, torch=linked, no_mlir=False)
    assert check(tmp_path, given) == status, capfd.readouterr().out
