"""What goes wrong around a program costs it nothing: damaged cache, full disk, killed compiler,
Ctrl-C, bad index."""

from __future__ import annotations

import subprocess

import pytest

from python_process import run_python

PRELUDE = """
import os, signal, threading, time, warnings, torch, ftm_lazy
from ftm_lazy.compile.compile_client import client
x = torch.arange(6.0).reshape(2, 3).to("ftm")
weight = torch.full((3, 3), 2.0, device="ftm")
torch.ftm.synchronize()

from ftm_lazy.compile import worker
from ftm_lazy.compile.worker import Worker
worker._STALL = 2.0  # seconds until a stopped compiler process is restarted
ask, hits = Worker._compile, []
def in_next_compile(act):
    def fire(inside):
        hits.append(inside.is_set()); act()
    def asked(worker, text, request, *reason):
        Worker._compile, inside = ask, threading.Event()
        inside.set()
        worker._start(); os.kill(worker.pid, signal.SIGSTOP)  # it is asked, and has not answered when `act` comes
        threading.Timer(0.1, fire, [inside]).start()
        try:
            return ask(worker, text, request, *reason)
        finally:
            inside.clear()
    Worker._compile = asked

def long_program(y):
    for i in range(200):  # fewer calls than make a loop that is cut
        y = y.sin().cumsum(1) + i
    return y.softmax(1).sum(1)
"""
PROGRAMS = {
    "worker killed during a compile": """
in_next_compile(lambda: os.kill(client().worker_pid(), signal.SIGKILL))
assert abs(long_program(x @ weight).cpu() - 1).max() < 1e-6
assert hits == [True]
assert weight.cpu().tolist() == [[2.0] * 3] * 3
""",
    "Ctrl-C during a compile": """
weight.mul_(3)
in_next_compile(lambda: os.kill(os.getpid(), signal.SIGINT))
y = long_program(x @ weight)
try:
    y.cpu()
except KeyboardInterrupt:
    hits.append("interrupted")
assert hits == [True, "interrupted"]
assert abs(y.cpu() - 1).max() < 1e-6
assert weight.cpu().tolist() == [[6.0] * 3] * 3
""",
    "Ctrl-C while Ctrl-C is handled": """
class Twice(KeyboardInterrupt):
    def __str__(self):  # whoever handles the first looks at it, and the second arrives
        os.kill(os.getpid(), signal.SIGINT); time.sleep(0.01)
        return "twice"

def asked(worker, text, request, *reason):
    Worker._compile = ask
    raise Twice

weight.mul_(3)
Worker._compile = asked
y = long_program(x @ weight)
try:
    y.cpu()
except KeyboardInterrupt:
    hits.append("interrupted")
assert hits == ["interrupted"]
assert abs(y.cpu() - 1).max() < 1e-6
assert weight.cpu().tolist() == [[6.0] * 3] * 3
""",
    "a time limit of the user's during a compile": """
class Limit:
    def __call__(self, number, frame):
        raise TimeoutError("the user's own")

weight.mul_(3)
with warnings.catch_warnings():
    warnings.simplefilter("error")
    for handler in (Limit(), Limit().__call__, lambda number, frame: Limit()(number, frame)):
        signal.signal(signal.SIGALRM, handler)
        in_next_compile(lambda: os.kill(os.getpid(), signal.SIGALRM))
        y = long_program((x @ weight).repeat(1, 1 + len(hits)))  # another program each time
        try:
            y.cpu()
        except TimeoutError as error:
            hits.append(str(error))
        assert hits[-2:] == [True, "the user's own"]
        assert y.cpu().shape == (2,)
assert weight.cpu().tolist() == [[6.0] * 3] * 3
assert "compile_failures" not in ftm_lazy.metrics.counters() or not ftm_lazy.metrics.counters()["compile_failures"]
""",
    "a launch that throws": """
ftm_lazy.sync()
from ftm_lazy import _C
_C._set_observer(lambda *run: None)  # a program's first run waits for its inputs, of which one has failed
y = torch.nn.functional.embedding(torch.tensor([0, 9]).to("ftm") + 0, weight)
_C._set_observer(None); ftm_lazy.sync(); _C._set_observer(lambda *run: None)
weight.mul_(3)
z = y + 1
try:
    ftm_lazy.sync()
except IndexError as error:
    hits.append("index")
for late in (z, y):
    try:
        late.cpu()
    except IndexError as error:
        hits.append("index")
assert hits == ["index"] * 3, hits
assert (x + 1).sum().item() == 21.0
assert weight.cpu().tolist() in ([[6.0] * 3] * 3, [[2.0] * 3] * 3)
""",
    "full disk": """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert (x + weight[:2]).sum().item() == 27.0
assert any("cannot store a compiled program" in str(w.message) for w in seen), [str(w.message) for w in seen]
""",
    "index out of range": """
torch.ftm.synchronize()
table = torch.ones(4, 2, device="ftm"); table.mul_(2); torch.ftm.synchronize()
for bad in (4, 1000, -5):
    y = torch.nn.functional.embedding(torch.tensor([0, bad]).to("ftm") + 0, table)
    try:
        y.cpu()
    except IndexError as error:
        assert "index out of range in self" in str(error), error
    else:
        raise AssertionError(f"index {bad} went through")
    del y
    assert table.cpu().tolist() == [[2.0, 2.0]] * 4
assert (x + 1).sum().item() == 21.0
""",
    "no temporary directory": """
import tempfile
client().close()
tempfile._candidate_tempdir_list = lambda: ["/nowhere"]; tempfile.tempdir = None
assert abs(long_program(x @ weight).cpu() - 1).max() < 1e-6
assert ftm_lazy.metrics.counters().get("compile_failures", 0) == 0
""",
    "DataLoader workers after use": """
from torch.utils.data import DataLoader, TensorDataset
assert x.sum().item() == 15.0
data = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2)
for _ in range(2):
    assert sum(batch.to("ftm").sum().item() for (batch,) in data) == 28.0
""",
}


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python(program, **environment)


@pytest.mark.parametrize("name", PROGRAMS)
def test_goes_on(name: str, tmp_path) -> None:
    done = run(PRELUDE + PROGRAMS[name], FTM_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_damaged_cache_files(tmp_path) -> None:
    program = PRELUDE + "print((x * weight[:2]).sum().item())"
    assert run(program, FTM_CACHE_DIR=str(tmp_path)).stdout == "30.0\n"
    files = list(tmp_path.glob("*.program"))
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    again = run(program, FTM_CACHE_DIR=str(tmp_path))
    assert again.stdout == "30.0\n"
    assert "is damaged" in again.stderr


def test_unknown_machine_is_said() -> None:
    done = run(PRELUDE, FTM_MACHINE="m9999")
    assert done.returncode != 0
    assert "FTM_MACHINE" in done.stderr and "m7032" in done.stderr


FAILED_STEP = """
import torch
from torch import nn

table, head = nn.Embedding(5, 8).to("ftm"), nn.Linear(8, 5).to("ftm")
parameters = [*table.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-2)

def step(*tokens):
    loss = nn.functional.cross_entropy(head(table(torch.tensor(tokens).to("ftm") + 0)), torch.tensor([1, 2]).to("ftm"))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    return loss.item()

losses = [step(1, 2) for _ in range(4)]
before = [p.detach().cpu().clone() for p in parameters]
try:
    step(1, 9)
    raise AssertionError("index 9 of 5 went through")
except IndexError as error:
    assert "index out of range" in str(error), error
assert all(torch.equal(p.detach().cpu(), old) for p, old in zip(parameters, before))
assert step(1, 2) < losses[-1]
"""


def test_a_step_that_fails_before_it_writes_loses_no_parameter() -> None:
    """Parameters are donated to the step; a fault before anything was written over gives them
    back."""
    done = run(FAILED_STEP)
    assert done.returncode == 0, done.stderr


def test_a_target_that_is_no_class_is_an_error() -> None:
    program = """
import torch
scores = torch.randn(4, 5).to("ftm")
loss = torch.nn.functional.cross_entropy(scores, torch.tensor([0, 1, 2, 7]).to("ftm") + 0)
try:
    print(loss.item())
except IndexError as error:
    assert "Target 7 is out of bounds" in str(error), error
else:
    raise AssertionError("target 7 of 5 went through")
ignored = torch.nn.functional.cross_entropy(scores, torch.tensor([0, -100, 2, 3]).to("ftm"))
assert torch.isfinite(ignored.cpu())
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
