"""Ctrl-C while programs run: it is heard at once, the machine stops where it may, and nothing is
lost."""

from __future__ import annotations

import time

import pytest

from python_process import run_python

PRELUDE = """
import os, random, signal, threading, time, torch, ftm_lazy
from torch import nn
torch.manual_seed(0)

def long_program(size, count):
    y = torch.eye(size).to("ftm") * 2
    w = torch.eye(size).to("ftm")
    torch.ftm.synchronize()
    for _ in range(count):
        y = y @ w
    return y.sum()

def interrupt_after(seconds):
    def fire():
        fired.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    fired = []
    threading.Timer(seconds, fire).start()
    return fired

def hear(fired, wait):  # and then the process ends
    try:
        wait()
        raise AssertionError("it was not interrupted")
    except KeyboardInterrupt:
        late = time.monotonic() - fired[0]
    assert late < 2, late
    print("LAST", time.time())

"""
PROGRAMS = {
    "a run that takes long": """
y = long_program(1024, 4); y.cpu()
begin = time.monotonic(); y = long_program(1024, 4); y.cpu(); one = (time.monotonic() - begin) / 4
count = int(20 / one)
def read():
    global y
    y = long_program(1024, min(count, 3000))  # recording waits, too, once enough cuts of the loop are under way
    y.cpu()

hear(interrupt_after(4), read)
""",
    "a run that has written over its inputs": """
def run(count):
    y, w = torch.eye(1024).to("ftm") * 2, torch.eye(1024).to("ftm")
    torch.ftm.synchronize()
    for _ in range(count):
        y.copy_(y @ w)
    return y

run(4).cpu()
begin = time.monotonic(); run(20).cpu(); one = (time.monotonic() - begin) / 20
y = run(min(int(20 / one), 3000))
hear(interrupt_after(2), y.cpu)
""",
    "what was interrupted is computed when it is next asked for": """
for wait in (lambda y: y.cpu(), lambda y: torch.ftm.synchronize(), lambda y: y.item()):
    long_program(512, 20).cpu()
    for attempt in range(6):
        y = long_program(512, 20)
        ftm_lazy.sync()
        try:  # it may fire before the timer's start has returned
            interrupt_after(random.random() * 0.1)
            wait(y)
            time.sleep(0.2)
        except KeyboardInterrupt:
            pass
        assert y.item() == 2 * 512
""",
    "training steps": """
def train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to("ftm")
    counter = torch.zeros((), device="ftm")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, y = torch.randn(512, 64).to("ftm"), torch.randint(10, (512,)).to("ftm")
    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        counter.add_(1)
        optimizer.step()
        return loss
    return model, counter, step

model, counter, step = train()
wanted = []
for _ in range(60):
    wanted.append(step().item())
final = [p.detach().cpu() for p in model.parameters()]

model, counter, step = train()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
caught = 0
for number in range(60):
    loss = step()
    first = random.random() * 0.01
    pair = [threading.Timer(delay, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)) for delay in (first, first + 0.003)]
    for timer in pair:
        timer.start()
    again = True
    while again:
        try:
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                value = loss.item()
                for timer in pair:
                    timer.join()
                again = False
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        except KeyboardInterrupt:
            caught += 1
    for timer in pair:
        timer.join()
    assert value == wanted[number], (number, value, wanted[number])
    assert counter.item() == number + 1
assert caught > 30, caught
for found, right in zip(model.parameters(), final):
    assert torch.equal(found.detach().cpu(), right)
""",
    "nothing runs on": """
import resource
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
x = torch.randn(1024, 1024).to("ftm")
y, z = torch.eye(1024).to("ftm"), torch.eye(1024).to("ftm")
def run(count):
    for _ in range(count):
        y.copy_(y @ z)
    return y
run(4).cpu()
begin = time.monotonic(); run(20).cpu(); one = (time.monotonic() - begin) / 20
y = run(min(int(20 / one), 3000))
fired = interrupt_after(1)
try:
    y.cpu()
    raise AssertionError("it was not interrupted")
except KeyboardInterrupt:
    pass
time.sleep(0.3)
before = used(); time.sleep(0.5)
assert used() - before < 0.2, used() - before
begin = time.monotonic()
assert (x[:2, :2] * 0 + 1).sum().item() == 4  # needs nothing of what was interrupted
assert time.monotonic() - begin < 10
os._exit(0)
""",
    "calls that run on the CPU one by one": """
x = torch.randn(1 << 20).to("ftm")
def run(count):
    y = x
    for _ in range(count):
        y = torch.lgamma(y.abs() + 1).sin()
    return y.sum()
wanted = run(40).item()
y = run(40)
ftm_lazy.sync()
interrupt_after(0.2)
try:
    y.item()
    time.sleep(0.3)
except KeyboardInterrupt:
    pass
assert y.item() == wanted
""",
    "torch.compile on the CPU": """
@torch.compile(backend="ftm")
def run(x):
    for _ in range(40):
        x = x @ w
    return x
w = torch.eye(1024)
run(w)
def repeat():
    while True:
        run(w)
hear(interrupt_after(1), repeat)
assert torch.equal(run(w), w)
""",
    "the pieces of a loop": """
class Expired(Exception):
    pass
def expire(number, frame):
    raise Expired
signal.signal(signal.SIGALRM, expire)
def run(device, count):
    state, w = torch.ones(64, 64, device=device), torch.eye(64, device=device) * 0.5
    for k in range(count):
        state.add_(torch.tanh(state @ w + k)).cos_().mul_(1.5)
    return state
caught, takes = 0, 0.02
for count in (40, 60, *range(41, 60), *range(61, 80)):
    state = run("ftm", count)
    begin = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, random.random() * takes)
        ftm_lazy.sync(wait=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        takes = max(0.0005, time.monotonic() - begin)  # the next one is to be interrupted in its midst
    except Expired:
        caught += 1
    torch.testing.assert_close(state.cpu(), run("cpu", count), rtol=1e-4, atol=1e-4)
    signal.setitimer(signal.ITIMER_REAL, 0)
assert caught > 8, caught
assert ftm_lazy.metrics.counters()["unrolled"] > 20
""",
    "a handler that raises": """
class Expired(Exception):
    pass
def expire(number, frame):
    raise Expired
signal.signal(signal.SIGALRM, expire)
long_program(1024, 100).cpu()
y = long_program(1024, 100)
ftm_lazy.sync()
try:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    y.item()
    raise AssertionError("it was not interrupted")
except Expired:
    pass
assert y.item() == 2048
""",
    "a handler that raises during a compile": """
class Expired(Exception):
    pass
def expire(number, frame):
    raise Expired
signal.signal(signal.SIGALRM, expire)
y = long_program(64, 200)
for i in range(100):
    y = (y * i).sin() + i
try:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    y.item()
    raise AssertionError("it was not interrupted")
except Expired:
    pass
assert y.item() == y.item()
assert ftm_lazy.metrics.counters()["compile_failures"] == 0
""",
    "a compiler that cannot be started": """
from ftm_lazy.compile.compile_client import client
x = torch.ones(3, device="ftm")
worker = client()._workers.first
worker.close()
command, worker._command = worker._command, ("/nowhere/python",)
y = x * 3 + 1
for _ in range(2):
    try:
        y.cpu()
        raise AssertionError("there was a compiler")
    except RuntimeError as error:
        assert "cannot be started" in str(error), error
worker._command = command
assert y.cpu().tolist() == [4.0] * 3
assert ftm_lazy.metrics.counters()["compile_failures"] == 0
""",
    "a limit on instructions": """
y = long_program(64, 50)
for i in range(50):
    y = (y * i).sin() + i
try:
    y.cpu()
    raise AssertionError("there is no limit")
except RuntimeError as error:
    assert "may take 5" in str(error), error
""",
}
SETTINGS = {
    "a limit on instructions": {"FTM_INSTRUCTION_LIMIT": "5", "FTM_CHECKED": "1"},
    "calls that run on the CPU one by one": {"FTM_EXECUTOR": "reference"},
}


@pytest.mark.alone  # how soon an interrupt is heard is measured
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_lost(tmp_path, name):
    environment = {"FTM_CACHE_DIR": str(tmp_path / "cache"), "FTM_CORES": "2"}
    environment |= SETTINGS.get(name, {})
    run = run_python(PRELUDE + PROGRAMS[name], timeout=300, **environment)
    assert run.returncode == 0, run.stderr
    if "LAST" in run.stdout:  # nor does the end of the process wait for what was interrupted
        assert time.time() - float(run.stdout.split()[-1]) < 5
