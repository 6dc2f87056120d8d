"""Processes that fail: the others raise, and end."""

from __future__ import annotations

import random

from distributed import kills, soak
from python_process import run_python


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


GONE = """
import os, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("ftm", timeout=timedelta(seconds=5))
rank = dist.get_rank()
device = torch.device("ftm", rank)
x = torch.ones(4, device=device)
dist.all_reduce(x)
x.tolist()
if rank == 1:
    os._exit(0)
found = []
for name, call in (
    ("all_gather_into_tensor of Float[4]", lambda: dist.all_gather_into_tensor(torch.empty(8, device=device), x)),
    ("reduce_scatter_tensor of Float[4]", lambda: dist.reduce_scatter_tensor(torch.empty(2, device=device), x)),
    ("broadcast of Float[4]", lambda: dist.broadcast(x, 1)),
):
    try:
        call()
        torch.ftm.synchronize()
    except RuntimeError as error:
        text = str(error)
        assert name in text and "program.py:" in text and "in group" in text, text
        assert "no answer from rank 1" in text or "store cannot be reached" in text, text
        found.append(name)
print(len(found), flush=True)
os._exit(0)
"""


def test_errors_name_collective_line_group_and_missing_rank(torchrun) -> None:
    assert torchrun(GONE) == "3\n"


HANDLER = """
import signal, threading, torch, torch.distributed as dist, ftm_lazy
from ftm_lazy import _C
from ftm_lazy.compile import compile_client
dist.init_process_group("ftm", store=dist.HashStore(), rank=0, world_size=1)
x, y = torch.ones(3, device="ftm"), torch.ones(3, device="ftm")
client, gate = compile_client.client(), threading.Event()
compiled = client._compiled
def wait_and_compile(request):
    gate.wait()
    return compiled(request)
client._compiled = wait_and_compile
def handle(*_):
    gate.set()
    dist.all_reduce(y)
    handled.append(y)
handled = []
signal.signal(signal.SIGUSR1, handle)
for k in range(4):  # as many launches as may wait for the compiler
    z = torch.arange(91.0 + k).to("ftm") * 3
    ftm_lazy.sync()
z = torch.arange(99.0).to("ftm") * 3
_C._set_trace_limit(1)  # the next call launches, and waits
threading.Timer(1.0, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1)).start()
dist.all_reduce(x)
assert len(handled) == 1
print(x.tolist(), y.tolist())
"""


def test_a_signal_handler_issues_a_collective_while_one_is_recorded() -> None:
    """In a wait for the compiler, where handlers run."""
    done = run_python(HANDLER)
    assert done.stdout == "[1.0, 1.0, 1.0] [1.0, 1.0, 1.0]\n", done.stderr
