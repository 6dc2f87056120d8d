"""Threads that run programs of their own: each has its own trace, cut where it would be if the
thread were alone."""

from __future__ import annotations

import copy
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import nn

import ftm_lazy
from ftm_lazy import _C

STEPS = 4


def built() -> int:
    """Programs that this process did not have: compiled, found on disk, or instances of general
    ones."""
    counters = ftm_lazy.metrics.counters()
    return counters["pieces"] + counters["cache_hits_disk"] + counters["instances"]


def at_once(work: Callable[[int], object], numbers: Sequence[int]) -> list[object]:
    """What `work` gives for each number, each in a thread of its own, all at the same time."""
    results: list[object] = [None] * len(numbers)
    begin = threading.Barrier(len(numbers))

    def run(place: int) -> None:
        begin.wait()
        try:
            results[place] = work(numbers[place])
        except BaseException as error:
            results[place] = error

    threads = [
        threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(numbers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread waits for what never comes"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def train(width: int, start: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Losses of a few steps; half of them are read before the step, half after it."""
    model = copy.deepcopy(start).to("ftm")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        x, y = inputs.to("ftm"), labels.to("ftm")
        loss = nn.functional.cross_entropy(model(x) * width, y)
        optimizer.zero_grad()
        loss.backward()
        if step % 2:
            losses.append(loss.item())
            optimizer.step()
        else:
            optimizer.step()
            losses.append(loss.item())
    return losses


def starts(widths: Sequence[int]) -> dict[int, tuple[nn.Module, torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    return {
        width: (
            nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3)),
            torch.randn(5, 6),
            torch.randint(3, (5,)),
        )
        for width in widths
    }


@pytest.mark.usefixtures("empty_caches")
def test_models_of_several_threads_need_the_programs_of_one() -> None:
    widths = [7, 9, 11, 13]
    given = starts(widths)
    alone = [train(width, *given[width]) for width in widths]
    before = built()
    for _ in range(3):
        assert at_once(lambda width: train(width, *given[width]), widths) == alone
    assert built() == before


@pytest.mark.usefixtures("empty_caches")
def test_threads_that_need_one_program_build_it_once() -> None:
    given = starts([13, 15, 17])
    train(13, *given[13])  # from the second width on, sizes are symbols
    before = built()
    losses = at_once(lambda place: train(15, *given[15]), range(4))
    assert losses == [losses[0]] * 4
    together = built() - before
    train(17, *given[17])
    assert together == built() - before - together


@pytest.fixture
def one_in_flight() -> Iterator[None]:
    _C._set_max_in_flight(1)
    yield
    _C._set_max_in_flight(3)


def test_a_result_that_waits_for_the_builder_and_the_builder_for_room(one_in_flight: None) -> None:
    """One thread's program comes first in the order of runs, and is built when the builder is done
    with those of another, which come later: these don't wait for it to have run."""
    x = torch.arange(6.0, device="ftm")
    torch.ftm.synchronize()
    long, later, asked = x, [], threading.Event()
    for step in range(400):
        long = (long + step).sin() if step % 3 else long.cos() * 1.01
    ftm_lazy.sync()  # keeps the builder busy while the others are given

    def read() -> list[float]:
        y = (x * 2.5).exp().neg()
        asked.set()
        return y.tolist()

    def work(place: int) -> list[float] | None:
        if place == 0:
            return read()
        asked.wait(20)
        time.sleep(0.05)
        for number in range(3):
            later.append((x - number).atan()[number:])
            ftm_lazy.sync()
        return None

    (found, _) = at_once(work, range(2))
    cpu = torch.arange(6.0)
    torch.testing.assert_close(torch.tensor(found), (cpu * 2.5).exp().neg())
    for number, value in enumerate(later):
        torch.testing.assert_close(value.cpu(), (cpu - number).atan()[number:])


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads give Python's lock up as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_read_while_they_hold_python_s_lock(eager_switches: None) -> None:
    """PyTorch asks for the number in an index under Python's lock, which the wait for it gives up
    and takes again."""
    x = torch.arange(110.0, device="ftm")

    def work(place: int) -> list[float]:
        index = torch.tensor(place, device="ftm")
        return [x[index + step].item() for step in range(100)]

    found = at_once(work, range(4))
    assert found == [[float(place + step) for step in range(100)] for place in range(4)]


def test_gradients_belong_to_the_thread_that_asks_for_them() -> None:
    """PyTorch computes the gradients of all threads in one of its own."""
    weights = [
        torch.full((3,), float(width), device="ftm", requires_grad=True) for width in range(4)
    ]

    def step(place: int) -> list[float]:
        syncs = []
        for _ in range(5):
            loss = (weights[place] * weights[place]).exp().sum() * 1e-6
            (gradient,) = torch.autograd.grad(loss, weights[place])
            syncs.append((gradient + loss.detach()).cpu())
        return syncs[-1].tolist()

    step(0)
    ftm_lazy.metrics.reset()
    found = at_once(step, range(4))
    counters = ftm_lazy.metrics.counters()
    assert (counters["syncs"], built()) == (20, 0)
    for width, values in enumerate(found):
        w = torch.full((3,), float(width))
        torch.testing.assert_close(
            torch.tensor(values), 1e-6 * (2 * w * (w * w).exp() + (w * w).exp().sum())
        )


def test_what_one_thread_left_pending_another_reads() -> None:
    x = torch.arange(4.0, device="ftm")
    ftm_lazy.sync()
    (theirs,) = at_once(lambda _: x * 3 + 1, [0])
    ours = x * 5
    ftm_lazy.metrics.reset()
    total = theirs + ours
    assert ftm_lazy.metrics.counters()["syncs"] == 1, "theirs was launched, ours goes on"
    assert total.tolist() == [1.0, 9.0, 17.0, 25.0]
    assert ftm_lazy.metrics.counters()["syncs"] == 2


def test_what_a_thread_leaves_is_launched_by_the_next_sync() -> None:
    x = torch.arange(4.0, device="ftm")
    torch.ftm.synchronize()
    ftm_lazy.metrics.reset()
    (left,) = at_once(lambda _: x.cos(), [0])
    end = time.monotonic() + 20
    while ftm_lazy.metrics.counters()["executions"] == 0 and time.monotonic() < end:
        torch.ftm.synchronize()  # `join` returns a little before the thread is gone
    assert ftm_lazy.metrics.counters()["executions"] == 1
    torch.testing.assert_close(left.cpu(), torch.arange(4.0).cos())
    assert ftm_lazy.metrics.counters()["executions"] == 1


def test_threads_write_to_one_tensor_in_turns() -> None:
    shared, turn = torch.zeros(8, device="ftm"), threading.Lock()

    def work(place: int) -> None:
        for _ in range(25):
            with turn:
                shared[place : place + 4].add_(1)
                shared.mul_(1)

    at_once(work, range(4))
    assert shared.tolist() == [25.0, 50.0, 75.0, 100.0, 75.0, 50.0, 25.0, 0.0]


@pytest.mark.filterwarnings("ignore")
def test_a_thread_whose_first_use_is_under_a_profiler() -> None:
    def work(_: int) -> list[float]:
        with torch.profiler.profile():
            x = torch.ones(3, device="ftm", requires_grad=True)
            (x * x).sum().backward()
        return x.grad.tolist()

    assert at_once(work, [0]) == [[2.0, 2.0, 2.0]]


def test_a_backward_pass_runs_on_the_thread_that_calls_it():
    threads = []

    def note(gradient: torch.Tensor) -> None:
        threads.append(threading.get_ident())
        if len(threads) == 3:
            raise ValueError("raised by a hook")

    x = torch.ones(3, device="ftm", requires_grad=True)
    y = x * 2
    y.register_hook(note)
    y.sum().backward(retain_graph=True)
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    with pytest.raises(ValueError, match="raised by a hook"):
        y.sum().backward()
    assert threads == [threading.get_ident()] * 3
    assert torch.autograd.is_multithreading_enabled()
