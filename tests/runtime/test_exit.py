"""A process exits with its status while daemon threads record, compile, launch and run backward."""

from __future__ import annotations

import pytest

from python_process import run_python

THREADS = """
import threading, time, torch
import torch._dynamo  # optimizers import it at their first use: in a thread, when PyTorch's handlers have taken its ops away, that raises

def train(number):
    torch.manual_seed(number)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)).to("ftm")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        loss = model(torch.randn(8, 64).to("ftm")).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

def compute(number):
    w, x = torch.randn(64, 64).to("ftm"), torch.randn(8, 64).to("ftm")
    for i in range(10**9):
        x = torch.tanh(x @ w) + float(number)
        if i % 7 == 0:
            x.cpu()
        if i % 50 == 0:
            x = torch.cat([x, x])[: 8 + i // 50]  # a program of its own

for number, work in enumerate([train, train, compute]):
    threading.Thread(target=work, args=(number,), daemon=True).start()
(torch.ones(4).to("ftm") + 1).tolist()
"""


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.7, 1.1, 1.5])
def test_threads_in_the_midst_of_work(seconds: float) -> None:
    """With Python 3.11 to 3.13 a thread that is late for the interpreter's end took the process
    with it, four times of ten."""
    text = f"{THREADS}\ntime.sleep({seconds})\nprint('ended')\n"
    done = run_python(text, library="torch._dynamo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_handlers_of_the_interpreters_end_use_the_device_and_join_threads() -> None:
    text = (
        THREADS.replace("range(10**9)", "range(200)").replace(
            "[train, train, compute]", "[compute]"
        )
        + """
import atexit
last = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
atexit.register(lambda: [thread.join() for thread in last])
atexit.register(lambda: print(torch.ones(2).to("ftm").sum().item()))
"""
    )
    done = run_python(text, library="torch._dynamo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n", "")


def test_without_memory_for_a_thread_the_end_is_quiet() -> None:
    text = """
import resource, torch
(torch.ones(4).to("ftm") + 1).sum().item()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
kept = []
try:
    while True:
        kept.append(bytearray(2**20))
except MemoryError:
    print("full")
"""
    done = run_python(text, library="torch._dynamo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "full\n", "")
