"""Compilation runs on its own thread while recording continues; errors are raised at reads."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch

import ftm_lazy
from ftm_lazy.compile import compile_client
from python_process import run_python

SIZES = iter(range(701, 10**6, 2))  # sizes that no other test uses


class Gate:
    """Holds the compiler back until it is opened; counts who has come to it."""

    def __init__(self, compile: Callable[[compile_client.CompileRequest], object]) -> None:
        self._compile = compile
        self._open = threading.Event()
        self.threads: list[threading.Thread] = []
        self.error: Exception | None = None

    def __call__(self, request: compile_client.CompileRequest) -> object:
        self.threads.append(threading.current_thread())
        assert self._open.wait(120)
        if self.error is not None:
            raise self.error
        return self._compile(request)

    def open(self) -> None:
        """Lets everybody through."""
        self._open.set()

    def wait_for(self, count: int) -> None:
        """Until so many have come."""
        until = time.monotonic() + 60
        while len(self.threads) < count and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.threads) == count


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    torch.zeros(1, device="ftm").item()
    client = compile_client.client()
    gate = Gate(client._compiled)
    monkeypatch.setattr(client, "_compiled", gate)
    yield gate
    gate.open()
    torch.ftm.synchronize()


def test_recording_goes_on_while_a_step_compiles(gate: Gate) -> None:
    x = torch.arange(float(next(SIZES)))
    y = (x.to("ftm") + 1) * 3
    ftm_lazy.sync()
    gate.wait_for(1)
    z = y - x.to("ftm")
    ftm_lazy.sync()
    assert len(gate.threads) == 1, "the second trace must be compiled after the first one"
    gate.open()
    assert torch.equal(z.cpu(), (x + 1) * 3 - x)
    assert threading.main_thread() not in gate.threads


def test_who_reads_waits(gate: Gate) -> None:
    x = torch.arange(float(next(SIZES)))
    y = x.to("ftm") + 1
    ftm_lazy.sync()
    gate.wait_for(1)
    threading.Timer(0.2, gate.open).start()
    assert torch.equal((y * 2).cpu(), (x + 1) * 2)
    assert threading.main_thread() not in gate.threads


def test_a_handler_of_a_signal_reads_what_is_being_compiled(gate: Gate) -> None:
    """Example: a handler of SIGTERM that saves the model."""
    x = torch.arange(float(next(SIZES)))
    y = x.to("ftm") + 1
    found = []
    before = signal.signal(signal.SIGUSR1, lambda *_: found.append(y.cpu()))
    main = threading.main_thread().ident
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1)).start()
    threading.Timer(0.5, gate.open).start()
    try:
        assert torch.equal((y * 2).cpu(), (x + 1) * 2)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(found) == 1 and torch.equal(found[0], x + 1)


def test_few_steps_wait_to_be_compiled(gate: Gate) -> None:
    x = torch.ones(8, device="ftm")
    results, begun = [], []

    def steps() -> None:
        for i in range(8):
            begun.append(i)
            results.append(x + torch.arange(float(next(SIZES))).to("ftm").sum() * 0 + float(i))
            ftm_lazy.sync()

    recorder = threading.Thread(target=steps)
    recorder.start()
    gate.wait_for(1)
    recorder.join(1)
    assert recorder.is_alive() and 3 <= len(begun) < 8, "each that waits holds its inputs"
    gate.open()
    recorder.join(120)
    assert [result[0].item() for result in results] == [1.0 + i for i in range(8)]


def test_a_missing_compiler_is_told_to_who_reads_and_asked_again(gate: Gate) -> None:
    x = torch.arange(float(next(SIZES)))
    y = x.to("ftm") + 1
    ftm_lazy.sync()
    gate.wait_for(1)
    later = x.to("ftm") * 7  # behind it
    ftm_lazy.sync()
    gate.error = compile_client.WorkerError("no process today")
    gate.open()
    with pytest.raises(compile_client.WorkerError, match="no process today"):
        later.cpu()
    gate.error = None
    with contextlib.suppress(compile_client.WorkerError):
        y.cpu()  # its compilation may have been failing, too, when the error was raised
    assert torch.equal(y.cpu(), x + 1)
    assert torch.equal(later.cpu(), x * 7)


def test_what_does_not_compile_is_warned_of_where_it_is_read(gate: Gate) -> None:
    x = torch.arange(float(next(SIZES)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = x.to("ftm") + 1
        ftm_lazy.sync()
    gate.wait_for(1)
    gate.error = compile_client.CompileError("a pass is ill")
    gate.open()
    with pytest.warns(UserWarning, match="could not be compiled .* a pass is ill"):
        torch.ftm.synchronize()
        found = y.cpu()
    assert torch.equal(found, x + 1)


def test_a_warning_that_is_an_error_loses_nothing(gate: Gate) -> None:
    x = torch.arange(float(next(SIZES)))
    y = x.to("ftm") + 1
    ftm_lazy.sync()
    gate.wait_for(1)
    later = x.to("ftm") * 7
    ftm_lazy.sync()
    gate.error = compile_client.CompileError("a pass is ill")
    gate.open()
    told = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (y, later, y, later):
            try:
                value.cpu()
            except UserWarning as warning:
                assert "a pass is ill" in str(warning)
                told += 1
    assert told >= 1
    assert torch.equal(y.cpu(), x + 1) and torch.equal(later.cpu(), x * 7)


PROGRAM = """
import os, signal, threading, torch, ftm_lazy
torch.zeros(1, device="ftm").item()
from ftm_lazy.compile import compile_client
y = torch.ones(3, device="ftm")
client = compile_client.client()
compile, begun = client._compiled, threading.Event()
def slow(request):
    begun.set()
    threading.Event().wait({seconds})
    made = compile(request)
    print("compiled")
    return made
client._compiled = slow
z = torch.linalg.norm(y @ y.diag()) + 5
ftm_lazy.sync()
begun.wait()
"""


def run(text: str) -> tuple[subprocess.CompletedProcess[str], float]:
    begin = time.monotonic()
    done = run_python(text)
    return done, time.monotonic() - begin


def test_the_process_ends_when_all_is_compiled() -> None:
    done, _ = run(PROGRAM.format(seconds=1))
    assert (done.returncode, done.stdout, done.stderr) == (0, "compiled\n", "")


def test_after_an_interrupt_the_process_does_not_wait_for_the_compiler() -> None:
    text = (
        PROGRAM.format(seconds=100)
        + "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\nz.item()\n"
    )
    done, seconds = run(text)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr
    assert done.stdout == "" and seconds < 60


def test_a_forked_child_goes_on_without_the_device(gate: Gate) -> None:
    y = torch.ones(next(SIZES), device="ftm") + 1
    ftm_lazy.sync()
    gate.wait_for(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, in newer Pythons
        child = os.fork()
    if child == 0:
        try:
            (y + 1).cpu()
        except RuntimeError as error:
            os._exit(7 if "forked subprocess" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gate.open()
    assert y[0].item() == 2
