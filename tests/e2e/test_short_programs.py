"""Programs of some microseconds run on the thread that launches them: the same results, errors and
order as on the launcher's thread.

Each program runs often enough to be known as short; then steps that differ from the last one in one
way follow, in random order.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import ftm_lazy

Step = Callable[[dict[str, Tensor]], list[Tensor]]


def tensors(device: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = {
        "x": torch.randn(4, 8, generator=generator),
        "y": torch.randn(4, 8, generator=generator),
        "w": torch.randn(8, 8, generator=generator),
        "state": torch.zeros(4, 8),
        "rows": torch.arange(80.0).reshape(10, 8),
    }
    return {name: value.to(device) for name, value in made.items()}


def layer(x: Tensor, y: Tensor, w: Tensor, scale: float = 0.5) -> Tensor:
    return torch.relu(x @ w) * scale + y


def in_place(t: dict[str, Tensor]) -> list[Tensor]:
    t["state"].add_(layer(t["x"], t["y"], t["w"]), alpha=0.25)
    return [t["state"]]


def in_place_with_a_copy(t: dict[str, Tensor]) -> list[Tensor]:
    before = t["state"].clone()
    t["state"].mul_(0.5)
    return [before, t["state"]]


def kept(t: dict[str, Tensor]) -> list[Tensor]:
    hidden = t["x"] @ t["w"]
    return [hidden, torch.relu(hidden) * 0.5 + t["y"]]


def of_a_view(row: int) -> Step:
    return lambda t: [layer(t["rows"][row : row + 4], t["y"], t["w"])]


STEPS: dict[str, Step] = {
    "the usual step": lambda t: [layer(t["x"], t["y"], t["w"])],
    "another number": lambda t: [layer(t["x"], t["y"], t["w"], 0.75)],
    "an integer as number": lambda t: [layer(t["x"], t["y"], t["w"], 2)],
    "another shape": lambda t: [layer(t["x"][:2], t["y"][:2], t["w"])],
    "another dtype": lambda t: [layer(t["x"].double(), t["y"].double(), t["w"].double())],
    "one tensor twice": lambda t: [layer(t["x"], t["x"], t["w"])],
    "operands exchanged": lambda t: [layer(t["y"], t["x"], t["w"])],
    "other strides": lambda t: [layer(t["x"], t["y"], t["w"].t())],
    "a result more": kept,
    "a view": of_a_view(0),
    "a view further on": of_a_view(3),
    "in place": in_place,
    "in place, and a copy": in_place_with_a_copy,
    "nothing to read": lambda t: [],
}


def check(steps: list[str], mine: dict[str, Tensor], eager: dict[str, Tensor]) -> None:
    for step in steps:
        actual, expected = STEPS[step](mine), STEPS[step](eager)
        for value, right in zip(actual, expected, strict=True):
            torch.testing.assert_close(value.cpu(), right, msg=lambda m, s=step: f"{s}: {m}")


def random_steps(seed: int, count: int) -> list[str]:
    return random.Random(seed).choices(list(STEPS), k=count)


def test_steps_that_differ_in_one_way_alternate():
    mine, eager = tensors("ftm"), tensors("cpu")
    for name in STEPS:
        check([name] * 3, mine, eager)
    check(random_steps(0, 300), mine, eager)


def test_threads_launch_short_programs_at_the_same_time():
    check(list(STEPS), tensors("ftm"), tensors("cpu"))  # compile before the threads start
    failures: list[Exception] = []

    def run(seed: int) -> None:
        try:
            check(random_steps(seed, 100), tensors("ftm"), tensors("cpu"))
        except Exception as error:  # noqa: BLE001 - raised by the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_an_error_of_a_short_program_is_raised_where_its_result_is_read():
    table, state = torch.arange(10.0).to("ftm"), torch.zeros(2).to("ftm")
    index = torch.tensor([1, 2]).to("ftm")
    for shift in [0, 1, 2, 3] * 3:
        state += table[index + index * shift]
    before = state.cpu()
    state += table[index + index * 30]
    with pytest.raises(IndexError):
        state.cpu()
    state.copy_(before)
    state += table[index + index * 3]
    torch.testing.assert_close(state.cpu(), before + torch.tensor([4.0, 8.0]))


def test_the_callers_flushing_of_denormals_does_not_matter():
    tiny = torch.full((4,), 1e-39)
    mine = tiny.to("ftm")
    try:
        for _ in range(5):
            (mine * 0.5).cpu()
        torch.set_flush_denormal(True)
        halved = (mine * 0.5).cpu().view(torch.int32)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(halved, (tiny * 0.5).view(torch.int32))


def launcher_switches() -> int:
    """Return how often the launcher's thread was woken since it began."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "ftm-launcher":
            status = (task / "status").read_text()
            return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    raise AssertionError("there is no launcher")


def test_short_programs_do_not_wake_the_launcher():
    t = tensors("ftm")

    def read() -> None:
        layer(t["x"], t["y"], t["w"]).cpu()

    for _ in range(20):
        read()
    torch.accelerator.synchronize()
    before = launcher_switches()
    for _ in range(200):
        read()
    # Where other processes interrupt a run, it takes long, and the launcher gets the next one.
    assert launcher_switches() - before < 150


def test_longer_programs_are_read_at_once_or_later():
    """Only in the first case may the thread that launches the program run it."""
    x, w = torch.randn(256, 256), torch.randn(256, 256) / 16
    mine, weights = x.to("ftm"), w.to("ftm")
    later: list[tuple[Tensor, Tensor]] = []
    for reads in random.Random(0).choices([True, False], k=60):
        mine, x = torch.tanh(mine @ weights), torch.tanh(x @ w)
        if reads:
            torch.testing.assert_close(mine.cpu(), x, atol=1e-5, rtol=1e-4)
        else:
            ftm_lazy.sync()
            later.append((mine, x))
    for actual, expected in later:
        torch.testing.assert_close(actual.cpu(), expected, atol=1e-5, rtol=1e-4)
