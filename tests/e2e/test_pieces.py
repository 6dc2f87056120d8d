"""The pieces of a trace are compiled beside one another: what goes wrong with one of them costs
time and no value."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import ftm_lazy
from ftm_lazy import _C
from ftm_lazy.compile import compile_client
from ftm_lazy.compile.disk_cache import DiskCache
from ftm_lazy.compile.worker import CompileError


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.ones(1).to("ftm").tolist()
    monkeypatch.setattr(compile_client.client(), "_cache", DiskCache(None, 0))
    _C._set_compile_threads(2)
    torch.ftm.empty_cache()


def counted() -> tuple[int, int]:
    counters = ftm_lazy.metrics.counters()
    return counters["compiles"], counters["pieces"]


def unrolled(cell: nn.GRUCell, steps: int) -> Tensor:
    """The gradients of a loop that is cut into pieces once a second number of steps comes."""
    device = cell.weight_ih.device
    torch.manual_seed(steps)
    x, h = (
        torch.randn(steps, 2, cell.input_size).to(device),
        torch.zeros(2, cell.hidden_size).to(device),
    )
    for k in range(steps):
        h = cell(x[k], h)
    cell.zero_grad()
    h.sum().backward()
    return torch.cat([p.grad.flatten() for p in cell.parameters()]).cpu()


@pytest.fixture
def cells() -> tuple[nn.GRUCell, nn.GRUCell]:
    """On the device, where one number of steps has come, and the same on the CPU."""
    torch.manual_seed(0)
    cell = nn.GRUCell(4, 8)
    on_device = nn.GRUCell(4, cell.hidden_size).to("ftm")
    on_device.load_state_dict(cell.state_dict())
    torch.testing.assert_close(unrolled(on_device, 12), unrolled(cell, 12))
    return on_device, cell


def compile_with(monkeypatch: pytest.MonkeyPatch, before: Callable[[str, int], None]) -> list[str]:
    """Calls this with each text that is compiled and its number; the names of the threads that
    compiled them."""
    client = compile_client.client()
    compile_, numbers, threads = client._compile, itertools.count(), []

    def compile_noted(text: str, *args: object, **kwargs: object) -> object:
        threads.append(
            Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip()
        )
        before(text, next(numbers))
        return compile_(text, *args, **kwargs)

    monkeypatch.setattr(client, "_compile", compile_noted)
    return threads


def test_pieces_are_one_program_and_compiled_ahead(cells, monkeypatch):
    threads = compile_with(monkeypatch, lambda text, number: None)
    before = counted()
    torch.testing.assert_close(unrolled(cells[0], 30), unrolled(cells[1], 30))
    after = counted()
    assert after[0] - before[0] == 1 and after[1] - before[1] >= 4
    assert threads.count("ftm-compile") >= 4
    for steps in (15, 22, 41):
        torch.testing.assert_close(unrolled(cells[0], steps), unrolled(cells[1], steps))
    assert counted()[0] - after[0] <= 1


@pytest.mark.filterwarnings("ignore:a program could not be compiled")
def test_a_piece_that_does_not_compile_runs_op_by_op(cells, monkeypatch):
    def fail(text: str, number: int) -> None:
        if number >= 1:
            raise CompileError("it does not compile")

    compile_with(monkeypatch, fail)
    failed = ftm_lazy.metrics.counters()["compile_failures"]
    with pytest.warns(UserWarning, match="it does not compile"):
        torch.testing.assert_close(unrolled(cells[0], 30), unrolled(cells[1], 30))
    assert ftm_lazy.metrics.counters()["compile_failures"] > failed
    torch.testing.assert_close(unrolled(cells[0], 31), unrolled(cells[1], 31))


@pytest.mark.parametrize("which", [0, 1])
def test_processes_that_are_killed_in_the_midst(cells, monkeypatch, which):
    workers = compile_client.client()._workers._all

    def kill(text: str, number: int) -> None:
        worker = workers[min(which, len(workers) - 1)]
        if number == 2 and worker.pid is not None:
            os.kill(worker.pid, signal.SIGKILL)

    compile_with(monkeypatch, kill)
    failed = ftm_lazy.metrics.counters()["compile_failures"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that it is started again
        torch.testing.assert_close(unrolled(cells[0], 30), unrolled(cells[1], 30))
    assert ftm_lazy.metrics.counters()["compile_failures"] == failed


def test_an_interrupt_while_pieces_are_compiled(cells, monkeypatch):
    main = threading.main_thread().ident

    def interrupt(text: str, number: int) -> None:
        if number == 1:
            time.sleep(0.3)
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.3)

    compile_with(monkeypatch, interrupt)
    model, on_cpu = cells
    with pytest.raises(KeyboardInterrupt):
        unrolled(model, 30)
    expected = unrolled(on_cpu, 30)
    torch.testing.assert_close(
        torch.cat([p.grad.flatten() for p in model.parameters()]).cpu(), expected
    )
    torch.testing.assert_close(unrolled(model, 30), expected)


def test_threads_that_need_the_same_pieces(cells):
    model, on_cpu = cells
    models = [nn.GRUCell(4, model.hidden_size).to("ftm") for _ in range(3)]
    for other in models:
        other.load_state_dict(model.state_dict())
    results: dict[int, Tensor] = {}
    before = counted()[1]

    def work(number: int) -> None:
        h = torch.zeros(2, model.hidden_size).to("ftm")
        x = torch.ones(30, 2, 4).to("ftm")
        for k in range(30):
            h = models[number](x[k], h)
        results[number] = h.detach().cpu()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    h = torch.zeros(2, model.hidden_size)
    for _ in range(30):
        h = on_cpu(torch.ones(2, 4), h)
    for number in range(3):
        torch.testing.assert_close(results[number], h.detach())
    assert counted()[1] - before <= 8, "each piece is compiled once"
