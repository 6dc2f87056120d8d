"""The recorder's mutexes are acquired in one order, and the GIL never while one is held.

Tests with threads would rarely hit the deadlocks that this rules out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CALLS = """
import ctypes, sys
wrong, watcher = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
assert watcher.watch(sys.argv[1].encode(), sys.argv[3].encode())
for call in sys.argv[4:]:
    eval(f"wrong.{call}")
"""


def built(name: str, folder: Path) -> str:
    library = folder / f"{name}.so"
    compiler = os.environ.get("CXX", "g++")
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-O1",
            "-g",
            "-shared",
            "-fPIC",
            str(HERE / f"{name}.cpp"),
            "-o",
            str(library),
            "-ldl",
        ],
        check=True,
    )
    return str(library)


@pytest.fixture(scope="module")
def watcher(tmp_path_factory: pytest.TempPathFactory) -> str:
    return built("watch", tmp_path_factory.mktemp("watch"))


def run(watcher: str, report: Path, *words: str) -> str:
    """Return the program's output."""
    environment = os.environ | {"LD_PRELOAD": watcher}
    try:
        done = subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=240
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"the program hangs; before that: {report.read_text()}")
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize(
    "calls, finds",
    [
        (["take_both(True)", "take_both(True)"], ""),
        (["take_both(True)", "take_both(False)"], "two mutexes are taken in both orders"),
        (["take_python_s()"], "Python's lock is taken under a mutex"),
    ],
)
def test_what_breaks_the_order_is_found(
    watcher: str, tmp_path: Path, calls: list[str], finds: str
) -> None:
    report = tmp_path / "report"
    run(watcher, report, "-c", CALLS, built("wrong", tmp_path), watcher, str(report), *calls)
    assert report.read_text().partition("\n")[0] == finds


def test_the_recorder_keeps_it(watcher: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    taken = int(run(watcher, report, str(HERE / "program.py"), str(report)))
    assert taken > 1000
    assert report.read_text() == ""
