"""setup.py: finds PyTorch where the package goes, and says clearly when it is missing or another
version."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).parents[2]
SITE = Path(setuptools.__file__).parents[1]


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> tuple[Path, Path]:
    """A Python environment with setuptools only, and its directory of packages."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, symlinks=True)
    packages = next(place.glob("lib/python*/site-packages"))
    for name in ("setuptools", "_distutils_hack", "pkg_resources"):
        if (SITE / name).exists():
            (packages / name).symlink_to(SITE / name)
    return place / "bin" / "python", packages


def build(python: Path) -> str:
    """What the build prints; it must fail, without a traceback."""
    run = subprocess.run(
        [python, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1 and "Traceback" not in run.stderr
    return run.stderr


def test_missing_pytorch(bare):
    message = build(bare[0])
    assert "PyTorch is not installed in the environment of" in message
    assert "pip install torch==2.13.0" in message


def test_another_pytorch(bare):
    python, packages = bare
    (packages / "torch").mkdir()
    (packages / "torch" / "__init__.py").touch()
    (packages / "torch" / "version.py").write_text("__version__ = '2.9.0+cpu'\n")
    message = build(python)
    assert "PyTorch 2.9.0+cpu is installed in" in message and "needs 2.13.0 or " in message


def test_second_build_does_nothing():
    run = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    again = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0 == again.returncode, run.stderr
    assert ".cpp" not in again.stderr
