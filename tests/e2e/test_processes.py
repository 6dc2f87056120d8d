"""What holds from one process to the next: the disk cache, the dump and its replay, memory that
stays flat."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from python_process import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"

PROGRAMS = {
    "digits": "import digits as m; m.train(m.parse(['--device', 'ftm', '--epochs', '1', '--quiet']))",
    "tiny_gpt": "import tiny_gpt as m; m.train(m.parse(['--steps', '3', '--batch-size', '2', '--sample', '2', '--quiet']))",
}


def run(program: str, **environment: str) -> dict[str, int]:
    """Runs an example in a process of its own and returns its counters."""
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\n{program}\n"
        "import ftm_lazy, json; print(json.dumps(ftm_lazy.metrics.counters()))"
    )
    done = run_python(code, timeout=600, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=PROGRAMS)
def dumped(request, tmp_path_factory) -> tuple[str, Path, dict[str, int]]:
    """A program, a folder with its cache and its dumps, and its counters in a first process."""
    folder = tmp_path_factory.mktemp(request.param)
    environment = {"FTM_CACHE_DIR": str(folder / "cache"), "FTM_DUMP": str(folder / "dump")}
    return request.param, folder, run(PROGRAMS[request.param], FTM_DEBUG="data", **environment)


def test_second_process_compiles_nothing(dumped) -> None:
    name, folder, first = dumped
    second = run(PROGRAMS[name], FTM_CACHE_DIR=str(folder / "cache"))
    assert first["compiles"] > 0
    assert second["compiles"] == 0
    general = first["general_programs"]
    assert second["cache_hits_disk"] == first["pieces"] - general, (
        f"every distinct trace compiled once: {first}, {second}"
    )
    assert second["instances"] == first["instances"] + general, (first, second)


def test_assembly_replays_in_checked_mode(dumped) -> None:
    """Each program that ran gives the same results from its `.lan` text, through `ftm run
    --checked`."""
    _, folder, _ = dumped
    programs = sorted(path.parent for path in (folder / "dump").glob("*/*.lan"))
    assert len(programs) >= 2
    for program in programs:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ftm_backend.tools.ftm_run",
                str(program),
                "--checked",
                "--rtol",
                "1e-4",
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{program.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.stdout.count("equal within tolerance") == len(list(program.glob("o*.npy")))
