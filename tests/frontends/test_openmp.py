"""PyTorch's own threads leave the processors to the machine, once it computes on tensors of the
CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import json, os, statistics, time
import torch

torch.set_num_threads(2)
x = torch.randn(300, 300)

def spun():  # seconds of processors in pauses after an operator of several threads
    used = []
    for _ in range(40):
        torch.add(x, x)
        begin = time.process_time()
        time.sleep(0.05)
        used.append(time.process_time() - begin)
    return {"usually": statistics.median(used), "at most": max(used)}

before = spun()
f = torch.compile(lambda x: (x * 2).relu(), backend="ftm")
assert torch.equal(f(x), (x * 2).relu())
time.sleep(0.2)
after = spun()
if os.fork() == 0:
    assert torch.equal(torch.ones(3) + 1, torch.full((3,), 2.0))
    os._exit(7)
code = os.waitstatus_to_exitcode(os.wait()[1])
print(json.dumps({"before": before, "after": after, "child": code}))
"""


def found(**environment: str) -> dict[str, Any]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


SPINNING = 5e-4


@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="OpenMP has no threads to spin")
def test_the_threads_of_operators_sleep_where_the_machine_has_as_many_as_there_are_processors() -> (
    None
):
    """By default they spin for milliseconds, which a slow processor only makes longer.

    Where others use the processors, a thread may have spun before the pause begins, so not each
    pause shows it.
    """
    processors = str(len(os.sched_getaffinity(0)))
    ours = found(FTM_CORES=processors)
    assert ours["after"]["usually"] < SPINNING and ours["child"] == 7, ours
    chosen = found(FTM_CORES=processors, OMP_WAIT_POLICY="active", GOMP_SPINCOUNT="3000000")
    assert chosen["child"] == 7
    if ours["before"]["at most"] < SPINNING:
        pytest.skip("no thread was seen to spin, with or without ftm: others have the processors")
    assert chosen["after"]["at most"] > SPINNING, (
        "what the environment says is the user's to choose"
    )
