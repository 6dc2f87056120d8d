"""Programs of several launches compile at once, each once, similar ones one after the other.

Whatever goes wrong meanwhile, no thread waits for ever and no value is lost.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import ftm_lazy
from ftm_lazy import _C
from ftm_lazy.compile import compile_client
from ftm_lazy.compile.disk_cache import DiskCache
from python_process import run_python

SIZES = iter(range(1701, 10**6, 2))  # sizes that no other test uses

Compile = Callable[[compile_client.CompileRequest], object]


@pytest.fixture
def compile_with(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Callable[[str], object]], None]]:
    """Sets a function to call before each compilation, with the trace's operations."""
    torch.zeros(1, device="ftm").item()
    client = compile_client.client()
    _C._set_compile_threads(2)
    compiled: Compile = client._compiled

    def set_function(before: Callable[[str], object]) -> None:
        def noted(request: compile_client.CompileRequest) -> object:
            before(" ".join(node.op for node in request.trace.nodes))
            return compiled(request)

        monkeypatch.setattr(client, "_compiled", noted)

    yield set_function
    torch.ftm.synchronize()
    _C._set_compile_threads(client.threads)


def in_threads(work: Callable[[], Tensor], count: int) -> list[Tensor]:
    """Return the results of `work` in that many threads at once."""
    found: list[Tensor] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(found) == count
    return found


def launch(operation: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    result = operation(x.to("ftm"))
    ftm_lazy.sync()
    return result


def test_programs_of_two_launches_compile_at_once(compile_with) -> None:
    both = threading.Barrier(2, timeout=60.0)
    compile_with(lambda operations: both.wait())
    x = torch.linspace(0, 1, next(SIZES))
    found = launch(torch.exp, x), launch(lambda x: x.cumsum(0).cos(), x)
    torch.testing.assert_close(found[0].cpu(), x.exp())
    torch.testing.assert_close(found[1].cpu(), x.cumsum(0).cos())
    assert not both.broken


def test_similar_programs_compile_one_after_the_other_in_order(compile_with) -> None:
    compiling = threading.Semaphore(1)
    order: list[str] = []

    def compile_alone(operations: str) -> None:
        assert compiling.acquire(blocking=False), "a similar program is being compiled"
        time.sleep(0.05)
        order.append(operations)
        compiling.release()

    compile_with(compile_alone)
    x = torch.linspace(0, 1, next(SIZES))
    lasts = [torch.sin, torch.cos, torch.tanh, torch.exp]
    found = [launch(lambda x, last=last: last((x * 2).relu().sqrt()), x) for last in lasts]
    for last, value in zip(lasts, found, strict=True):
        torch.testing.assert_close(value.cpu(), last((x * 2).relu().sqrt()))
    assert [words.split()[-1] for words in order] == [f"aten::{last.__name__}" for last in lasts]


def test_a_program_that_threads_need_at_once_is_compiled_once(compile_with) -> None:
    compiled: list[str] = []

    def compile_slowly(operations: str) -> None:
        compiled.append(operations)
        time.sleep(0.2)

    compile_with(compile_slowly)
    x = torch.linspace(0, 1, next(SIZES))
    found = in_threads(lambda: launch(torch.tanh, x).cpu(), 4)
    assert len(compiled) == 1
    for value in found:
        torch.testing.assert_close(value, x.tanh())


def test_jobs_run_in_launch_order_whichever_program_is_compiled_first(compile_with) -> None:
    last_is_compiled = threading.Event()

    def compile_last_first(operations: str) -> None:
        if "cumsum" in operations:
            last_is_compiled.set()
        else:
            assert last_is_compiled.wait(60.0)

    compile_with(compile_last_first)
    x = torch.linspace(0, 1, next(SIZES))
    first = launch(torch.exp, x)
    last = launch(lambda x: x.cumsum(0), x)
    torch.testing.assert_close(last.cpu(), x.cumsum(0))
    torch.testing.assert_close((first + 1).cpu(), x.exp() + 1)


def test_a_program_that_does_not_compile_serves_all_threads_that_wait(compile_with) -> None:
    compiled: list[str] = []

    def fail(operations: str) -> None:
        compiled.append(operations)
        time.sleep(0.2)
        raise compile_client.CompileError("a pass is ill")

    compile_with(fail)
    x = torch.linspace(0, 1, next(SIZES))
    with pytest.warns(UserWarning, match="could not be compiled .* a pass is ill") as warned:
        found = in_threads(lambda: launch(torch.tanh, x).cpu(), 3)
    assert len(compiled) == 1 and len(warned) == 1
    for value in found:
        torch.testing.assert_close(value, x.tanh())


def test_a_reset_while_programs_compile(compile_with) -> None:
    begun, is_reset = threading.Event(), threading.Event()

    def compile_across(operations: str) -> None:
        begun.set()
        assert is_reset.wait(60.0)

    compile_with(compile_across)
    x = torch.linspace(0, 1, next(SIZES))
    first = launch(torch.exp, x)
    last = launch(lambda x: x.cumsum(0), x)
    assert begun.wait(60.0)
    _C._reset()
    again = launch(torch.exp, x)
    is_reset.set()
    torch.testing.assert_close(last.cpu(), x.cumsum(0))
    torch.testing.assert_close(first.cpu(), x.exp())
    torch.testing.assert_close(again.cpu(), x.exp())


def test_compiler_processes_are_killed_while_two_programs_compile(
    compile_with, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = compile_client.client()
    monkeypatch.setattr(client, "_cache", DiskCache(None, 0))
    x = torch.linspace(0, 1, next(SIZES))
    launch(torch.sin, x).cpu()  # starts the processes
    both = threading.Barrier(3, timeout=60.0)
    compile_with(lambda operations: both.wait())
    pids = [worker.pid for worker in client._workers._all if worker.pid is not None]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that each has a program when it is killed
    found = launch(torch.exp, x), launch(lambda x: x.cumsum(0).cos(), x)
    both.wait()
    compile_with(lambda operations: None)
    time.sleep(0.2)
    with pytest.warns(RuntimeWarning, match="was killed by signal 9 and is restarted"):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        torch.testing.assert_close(found[0].cpu(), x.exp())
        torch.testing.assert_close(found[1].cpu(), x.cumsum(0).cos())


class Expired(Exception):
    """What a signal handler raises."""


def expire(number: int, frame: object) -> None:
    raise Expired


def test_an_interrupt_ends_a_wait_and_no_compilation(compile_with) -> None:
    compiled: list[str] = []
    is_open = threading.Event()

    def compile_late(operations: str) -> None:
        compiled.append(operations)
        assert is_open.wait(60.0)

    compile_with(compile_late)
    x = torch.linspace(0, 1, next(SIZES))
    first = launch(torch.exp, x)
    last = x.to("ftm").cumsum(0).cos()
    before = signal.signal(signal.SIGALRM, expire)
    try:
        for wait in (last.cpu, torch.ftm.synchronize, first.cpu, lambda: ftm_lazy.sync(wait=True)):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Expired):
                wait()
    finally:
        signal.signal(signal.SIGALRM, before)
        is_open.set()
    torch.testing.assert_close(last.cpu(), x.cumsum(0).cos())
    torch.testing.assert_close(first.cpu(), x.exp())
    assert len(compiled) == 2


PRELUDE = """
import ctypes, os, signal, sys, threading, time, torch, ftm_lazy
from ftm_lazy import _C
from ftm_lazy.compile import compile_client

torch.zeros(1, device="ftm").item()
client = compile_client.client()
compiled, begun, is_open = client._compiled, threading.Event(), threading.Event()
def held(request):
    begun.set()
    is_open.wait()
    return compiled(request)
client._compiled = held
x = torch.linspace(0, 1, 37)
"""
PROGRAMS = {
    "the process ends while programs compile and a thread waits": """
y = (x.to("ftm") * 3).exp()
ftm_lazy.sync()
z = (x.to("ftm") * 5).cumsum(0).cos()
ftm_lazy.sync()
threading.Thread(target=z.cpu, daemon=True).start()
begun.wait()
threading.Timer(0.5, is_open.set).start()
""",
    "a forked child compiles for the CPU and ends": """
y = (x.to("ftm") * 3).exp()
ftm_lazy.sync()
begun.wait()
child = os.fork()
if child == 0:
    client._compiled = compiled
    run = torch.compile(lambda x: (x * 7).tanh() + 1, backend="ftm")
    torch.testing.assert_close(run(x), (x * 7).tanh() + 1)
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
is_open.set()
torch.testing.assert_close(y.cpu(), (x * 3).exp())
""",
    "a handler's exception ends the launch of its own thread": """
class Expired(Exception):
    pass
def expire(number, frame):
    raise Expired
signal.signal(signal.SIGALRM, expire)
_C._set_compile_at_launch(True)
def read():
    found.append((x.to("ftm") * 3).exp().cpu())
found = []
readers = [threading.Thread(target=read) for _ in range(2)]
def start():
    begun.wait()
    for reader in readers:
        reader.start()
    time.sleep(0.3)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
    client._compiled = compiled
threading.Thread(target=start).start()
try:
    read()
    raise AssertionError("it was not interrupted")
except Expired:
    is_open.set()
for reader in readers:
    reader.join()
read()
assert len(found) == 3
for y in found:
    torch.testing.assert_close(y, (x * 3).exp())
""",
    "no thread can be started": """
import warnings
is_open.set()
_C._set_compile_at_launch(True)
(x.to("ftm") * 3).cpu()  # starts the launcher, but no compile thread
_C._set_compile_at_launch(False)
libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(56)
libc.pthread_attr_init(attributes)
libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(2**46))
assert libc.pthread_setattr_default_np(attributes) == 0
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    y = (x.to("ftm") * 3).exp()
    ftm_lazy.sync()
    z = (x.to("ftm") * 5).cumsum(0)
    torch.testing.assert_close(z.cpu(), (x * 5).cumsum(0))
torch.testing.assert_close(y.cpu(), (x * 3).exp())
assert ["few programs are compiled" in str(each.message) for each in warned] == [True], warned
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_thread_waits_for_ever(name: str) -> None:
    done = run_python(PRELUDE + PROGRAMS[name], timeout=60, FTM_CACHE_DIR="off")
    assert (done.returncode, done.stderr) == (0, "")
