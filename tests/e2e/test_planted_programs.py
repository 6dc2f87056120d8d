"""A file of the cache with another program inside: it is not run, but removed, and the right one
compiled."""

from __future__ import annotations

import pytest

from python_process import run_python

PROGRAM = """
import sys, warnings, torch, ftm_lazy
from ftm_lazy.compile.compile_client import client

def trace_of(make):
    return ftm_lazy.debug.text([make()], "trace")

x = torch.arange(12.0).reshape(3, 4).to("ftm")
big, whole = torch.ones(300, 400).to("ftm"), torch.arange(12).reshape(3, 4).to("ftm")
torch.ftm.synchronize()
MAKE = {
    "wanted": lambda: x * 2 + 1,
    "larger arguments": lambda: big * 2 + 1,
    "other arguments": lambda: whole * 2 + 1,
    "fewer arguments": lambda: torch.full((3, 4), 7.0, device="ftm"),
    "another result": lambda: (x * 2 + 1).sum(1),
    "another scalar": lambda: x * 2.0 + 1,
}
b = client()
wanted = trace_of(MAKE["wanted"])
stored = b._workers.compile(trace_of(MAKE[sys.argv[1]]), {"machine": "host", "cores": b._settings.cores, "tune": "", "texts": False})[0]
b._cache.put(b._key(wanted), stored)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert MAKE["wanted"]().cpu().tolist() == (torch.arange(12.0).reshape(3, 4) * 2 + 1).tolist()
assert any("is damaged (the program is another one than the trace" in str(w.message) for w in told), [str(w.message) for w in told]
counters = ftm_lazy.metrics.counters()
assert counters["compile_failures"] == 0, counters
from ftm_backend.executable import Executable
assert Executable.from_bytes(b._cache.get(b._key(wanted))).image != Executable.from_bytes(stored).image
"""


@pytest.mark.parametrize(
    "planted",
    ["larger arguments", "other arguments", "fewer arguments", "another result", "another scalar"],
)
def test_another_program_is_not_run(tmp_path, planted):
    run = run_python(PROGRAM, planted, timeout=200, FTM_CACHE_DIR=str(tmp_path / "cache"))
    assert run.returncode == 0, run.stderr
