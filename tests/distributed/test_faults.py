"""Processes that fail: the others raise, and end."""

from __future__ import annotations

import random

from distributed import kills, soak


def test_killed_process() -> None:
    outcome = kills.kill_one(random.Random(1))
    assert outcome.fault() == ""
    missing = f"no answer from rank {outcome.killed}"
    assert missing in outcome.errors or "store cannot be reached" in outcome.errors


def test_memory_does_not_grow() -> None:
    assert max(soak.growth(steps=200, ranks=2)) < 4.0


MISMATCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("ftm")
x = torch.ones(2, device="ftm")
try:
    dist.all_reduce(x) if dist.get_rank() == 0 else dist.broadcast(x, 0)
    x.tolist()
    print("no error")
except RuntimeError as error:
    named = "ALLREDUCE" in str(error) and "BROADCAST" in str(error)
    print("named\\n" if named else error, end="")  # in one write
os._exit(0)
"""


def test_collectives_that_differ_are_named(torchrun) -> None:
    assert torchrun(MISMATCH, TORCH_DISTRIBUTED_DEBUG="DETAIL") == "named\nnamed\n"
