"""What holds from one process to the next: the disk cache, the dump and its replay, memory that stays flat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PROGRAMS = {
    "digits": "import digits as m; m.train(m.parse(['--device', 'ftm', '--epochs', '1', '--quiet']))",
    "tiny_gpt": "import tiny_gpt as m; m.train(m.parse(['--steps', '3', '--sample', '2', '--quiet']))",
    "xla_style": "import xla_style as m; m.train(m.parse(['--epochs', '1', '--quiet']))",
}


def run(program: str, **environment: str) -> dict[str, int]:
    """Runs an example in a process of its own and returns its counters."""
    code = f"{program}\nimport ftm_lazy, json; print(json.dumps(ftm_lazy.metrics.counters()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES), **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_process_compiles_nothing(name: str, tmp_path) -> None:
    first = run(PROGRAMS[name], FTM_CACHE_DIR=str(tmp_path))
    second = run(PROGRAMS[name], FTM_CACHE_DIR=str(tmp_path))
    assert first["compiles"] > 0
    assert second["compiles"] == 0
    general = first["general_programs"]
    assert second["cache_hits_disk"] == first["pieces"] - general, f"every distinct trace compiled once: {first}, {second}"
    assert second["instances"] == first["instances"] + general, (first, second)


STEADY = """
import resource, torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to("ftm")
optimizer = torch.optim.AdamW(model.parameters())
def step():
    x, y = torch.randn(64, 64).to("ftm"), torch.randint(10, (64,)).to("ftm")
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    return loss
for _ in range(50): step().item()
before, allocated = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, torch.ftm.memory_allocated()
for _ in range(500): step().item()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(after - before, torch.ftm.memory_allocated() - allocated)
"""


def test_memory_of_a_steady_loop_is_flat() -> None:
    done = subprocess.run([sys.executable, "-c", STEADY], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    grown_kib, grown_bytes = map(int, done.stdout.split())
    assert grown_kib < 4096, f"peak resident size grew by {grown_kib} KiB over 500 steps"
    assert grown_bytes == 0


SHAPES = """
import resource, torch
x = torch.ones(1, device="ftm")
def record(sizes):
    for n in sizes:
        (x.expand(n, 1) + 1).sum(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = record(range(2, 6000))
print(record(range(6000, 12000)) - before)
"""


def test_memory_does_not_grow_with_the_shapes_that_were_recorded() -> None:
    done = subprocess.run([sys.executable, "-c", SHAPES], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8192, f"peak resident size grew by {done.stdout.strip()} KiB over 6,000 shapes"


TRAIN = """
import os, torch, ftm_lazy
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).to("ftm")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(shapes):
    for n in shapes:
        x = torch.randn(3 + n % 40, 2 + n // 40, 16).to("ftm")
        optimizer.zero_grad()
        loss = model(x).pow(2).mean() + x.softmax(1).sum() * 0
        loss.backward(); optimizer.step(); loss.item()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = train(range(300))
print(train(range(300, 1300)) - before, ftm_lazy._C._program_count())
"""


def test_memory_does_not_grow_with_the_shapes_that_were_trained_on() -> None:
    """Once as many programs are kept as the limit allows, 1,000 shapes more take next to nothing."""
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    grown, programs = map(int, done.stdout.split())
    assert grown < 16 << 20, f"resident size grew by {grown >> 10} KiB over 1,000 shapes"
    assert programs == 256


RUN = """
import os, torch, ftm_lazy
def run(sizes):
    for n in sizes:
        x = torch.ones(n, 3).to("ftm")
        assert abs(torch.softmax(x * 2, 1).sum().item() - n) < 0.1
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = run(range(3, 303))
print(run(range(303, 1303)) - before, ftm_lazy._C._program_count())
"""


def test_memory_does_not_grow_with_the_shapes_that_ran() -> None:
    """Of 1,300 shapes the programs that were not used are dropped."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, timeout=300, env={**os.environ, "FTM_PROGRAM_LIMIT": "64"}
    )
    assert done.returncode == 0, done.stderr
    grown, programs = map(int, done.stdout.split())
    assert grown < 16 << 20, f"resident size grew by {grown >> 10} KiB over 1,000 shapes"
    assert programs == 64


@pytest.mark.parametrize("name", PROGRAMS)
def test_assembly_replays_in_checked_mode(name: str, tmp_path) -> None:
    """Each program that ran gives the same results from its `.lan` text, through `ftm-run --checked`."""
    run(PROGRAMS[name], FTM_DUMP=str(tmp_path), FTM_DEBUG="data")
    programs = sorted(path.parent for path in tmp_path.glob("*/*.lan"))
    assert len(programs) >= 2
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-m", "ftm_backend.tools.ftm_run", str(program), "--checked", "--rtol", "1e-4"],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{program.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.stdout.count("equal within tolerance") == len(list(program.glob("o*.npy")))
