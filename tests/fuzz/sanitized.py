"""Runs a Python program with ftm's C++ under sanitizers:

``python tests/fuzz/sanitized.py address -m pytest --sanitized=address tests/machine``, or
``thread`` in both places: the machine. ``python tests/fuzz/sanitized.py recorder -m pytest
tests/recorder``: recorder and machine, of the copy that ``setup.py build_sanitized`` made, under
address and undefined-behaviour sanitizers. PyTorch itself is not, and no report of its own is
suppressed.

Such a program fails if it or a process that it started left a report, and says how it ended: by the
tests, by a sanitizer, or by a signal, with the memory that it had. Pytest needs ``--capture=sys``,
or what a sanitizer writes ends with the process.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

_ADDRESS = ("libasan.so", "libubsan.so", "libstdc++.so.6")
_LIBRARIES = {"address": _ADDRESS, "recorder": _ADDRESS, "thread": ("libtsan.so", "libstdc++.so.6")}
_RECORDER = Path(__file__).resolve().parents[2] / "build" / "sanitized"
_RACES = Path(__file__).with_name("races.supp")
_FOUND = 86  # exit status of a process that a sanitizer ended
_REPORTS = Path(__file__).resolve().parents[2] / "build" / "reports"


def environment(kind: str, races: bool = False) -> dict[str, str]:
    """For a process that loads a library under `kind` into an interpreter that is not. ``races``:
    its programs may have some. ``plain``: no sanitizer."""
    if kind == "plain":
        return dict(os.environ)
    if kind == "recorder" and not any(_RECORDER.glob("ftm_lazy/_C*.so")):
        sys.exit(
            "there is no recorder under sanitizers: build it by `python setup.py build_sanitized`"
        )
    packages = [str(_RECORDER)] if kind == "recorder" else []
    runtimes = [
        subprocess.run(
            [os.environ.get("CXX", "g++"), f"-print-file-name={name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in _LIBRARIES[kind]
    ]
    return os.environ | {
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": f"exitcode={_FOUND}:detect_leaks=0:allocator_may_return_null=1:handle_abort=1",
        "UBSAN_OPTIONS": f"exitcode={_FOUND}:print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": f"exitcode={_FOUND}:halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1"
        + (f":print_suppressions=0:suppressions={_RACES}" if races else ""),
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([*packages, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def run(kind: str, words: list[str]) -> int:
    """Runs the interpreter with ``words`` under a sanitizer and prints what it found; gives the
    exit status, which is not 0 then."""
    reports = _REPORTS / str(os.getpid())
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    variables = environment(kind)
    # `-m` puts the working directory first, in which the recorder is that without sanitizers
    if kind == "recorder":
        variables["PYTHONSAFEPATH"] = "1"
    # (libubsan beside libasan writes to the standard error for all that)
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        variables[name] += f":log_path={reports / 'report'}"
    status = subprocess.run([sys.executable, *words], env=variables).returncode
    found = sorted(file for file in reports.iterdir() if file.stat().st_size)
    for file in found:
        print(
            f"\n{kind}: report of process {file.suffix[1:]}\n{file.read_text(errors='replace')}",
            file=sys.stderr,
        )
    shutil.rmtree(reports)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    how = f"status {status}"
    if status < 0:
        how = (
            f"ended by {signal.Signals(-status).name}"
            + ", as the system does for want of memory" * (status == -signal.SIGKILL)
        )
    elif status == _FOUND:
        how = "ended by a sanitizer, whose report is above"
    print(
        f"{kind}: {how}; {len(found)} reports of processes; at most {memory:.1f} GB: {' '.join(words)}",
        file=sys.stderr,
    )
    return 128 - status if status < 0 else status or bool(found)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
