"""Runs a Python program with ftm's C++ under sanitizers:

``python tests/fuzz/sanitized.py address -m pytest --sanitized=address tests/machine``, or ``thread`` in both places: the machine.
``python tests/fuzz/sanitized.py recorder -m pytest tests/recorder``: recorder and machine, of the copy that ``setup.py build_sanitized``
made, under address and undefined-behaviour sanitizers. PyTorch itself is not, and no report of its own is suppressed.
"""

import os
import subprocess
import sys
from pathlib import Path

_ADDRESS = ("libasan.so", "libubsan.so", "libstdc++.so.6")
_LIBRARIES = {"address": _ADDRESS, "recorder": _ADDRESS, "thread": ("libtsan.so", "libstdc++.so.6")}
_RECORDER = Path(__file__).resolve().parents[2] / "build" / "sanitized"
_RACES = Path(__file__).with_name("races.supp")


def environment(kind: str, races: bool = False) -> dict[str, str]:
    """For a process that loads a library under `kind` into an interpreter that is not. ``races``: its programs may have some.
    ``plain``: no sanitizer."""
    if kind == "plain":
        return dict(os.environ)
    packages = [str(_RECORDER)] if kind == "recorder" else []
    runtimes = [
        subprocess.run(
            [os.environ.get("CXX", "g++"), f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in _LIBRARIES[kind]
    ]
    return os.environ | {
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_abort=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1"
        + (f":print_suppressions=0:suppressions={_RACES}" if races else ""),
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([*packages, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[2:]], environment(sys.argv[1]))
