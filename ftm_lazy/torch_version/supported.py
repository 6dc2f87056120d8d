"""The supported versions of PyTorch, and the check that comes before the recorder is loaded.

The recorder uses PyTorch's C++ interface, which changes between versions, so a build serves exactly
one of them. ``setup.py`` reads `SUPPORTED` and writes the version next to the library. This module
imports nothing of PyTorch: ``setup.py`` loads it before PyTorch can be imported.
"""

from __future__ import annotations

import json
from pathlib import Path

SUPPORTED = ("2.13.0", "2.14.1")
"""Versions that the sources compile for and are tested with, oldest first."""

BUILD_RECORD = Path(__file__).parents[1] / "build_record.json"
"""What the installed recorder was built for: ``{"torch": "2.13.0", "python": "3.11"}``."""

_NOT_BUILT = (
    "ftm_lazy._C, the recorder, is not built: run `make build`, or install the package with pip"
)


def release(version: str) -> str:
    """Return a version without its local part: ``2.13.0+cpu`` is ``2.13.0``.

    The variants of one release (CPU, CUDA, ROCm) have one C++ interface.
    """
    return version.partition("+")[0]


def wheel_version(version: str, torch: str) -> str:
    """Return the version of a wheel of ftm: ``0.1.0.post21401`` is 0.1.0 for PyTorch 2.14.1.

    Args:
        version: ftm's version.
        torch: PyTorch's version, of three numbers.
    """
    major, minor, patch = map(int, release(torch).split("."))
    return f"{version}.post{major}{minor:02}{patch:02}"


def built_for() -> str | None:
    """Return the version of PyTorch that the recorder was built for; None if it is not built."""
    try:
        return str(json.loads(BUILD_RECORD.read_text())["torch"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def mismatch(installed: str) -> str | None:
    """Return why the recorder cannot be loaded, with the command that helps; None if it can.

    Args:
        installed: ``torch.__version__``.
    """
    built = built_for()
    if built is None:
        return _NOT_BUILT
    if release(installed) == built:
        return None
    reason = f"this ftm is built for PyTorch {built}, but PyTorch {installed} is installed"
    if release(installed) in SUPPORTED:
        return (
            f"{reason}: run `pip install torch-ftm torch=={release(installed)}` for another ftm, or"
            f" `pip install torch=={built}`"
        )
    return f"{reason}, which ftm does not support: run `pip install torch=={built}`"
