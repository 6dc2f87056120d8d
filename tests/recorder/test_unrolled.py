"""Loops unrolled into one trace, whose number of iterations varies: cut into iterations, they
compute what they do uncut."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftm_lazy import _C

COUNTS = (6, 9, 14, 4, 9, 33, 1, 2, 20)
"""Of iterations, one trace after the other."""

Result = list[Tensor]

pytestmark = pytest.mark.usefixtures("forgotten")


def cells(device: str, count: int) -> Result:
    """A recurrent cell over time, its outputs stacked, and gradients through all of it."""
    cell, x = nn.GRUCell(3, 4).to(device), torch.randn(count, 2, 3).to(device)
    h, outputs = torch.zeros(2, 4, device=device), []
    for k in range(count):
        h = cell(x[k], h)
        outputs.append(h)
    made = torch.stack(outputs).tanh()
    made.square().mean().backward()
    return [made, h, *(parameter.grad for parameter in cell.parameters())]


def written_places(device: str, count: int) -> Result:
    """Writes in place: to the state, to a row of a log, through a view that stays."""
    log, state = torch.zeros(40, 3, device=device), torch.ones(3, device=device)
    column = log[:, 1]
    for k in range(count):
        state.mul_(1.25).add_(log[k].sum()).clamp_(-4, 4)
        log[k] = state.cos()
        column[k + 1] += 0.5
    return [log, state, column]


def random_numbers(device: str, count: int) -> Result:
    """Dropout and noise in each iteration, drawn in order."""
    x = torch.ones(4, 5, device=device)
    for _ in range(count):
        x = F.dropout(torch.sin(x) + torch.randn(4, 5, device=device), 0.3)
    return [x, torch.rand(3, device=device)]


def kept_results(device: str, count: int) -> Result:
    """Reads all results of the iterations, also through contiguous and other views."""
    x, kept = torch.linspace(-1, 1, 24).reshape(4, 6).to(device), []
    for _ in range(count):
        x = torch.softmax(x @ x.t() @ x, dim=1) + x
        kept += [x[1:3], x.t()[2:5], x.reshape(-1)[3:7], x.max(dim=1).values]
    return [*kept, x]


def several_loops(device: str, count: int) -> Result:
    """Nested loops, two loops in sequence, and integers as well as floats."""
    x, steps = torch.arange(6.0).to(device), torch.zeros((), dtype=torch.int64, device=device)
    for _ in range(count):
        for _ in range(3):
            x = (x * 0.5 + 1).sqrt()
        steps = steps + (x > 1.2).sum()
    terms = [(x - k).square().mean() * (k + 1) for k in range(count)]
    return [x, steps, torch.stack(terms).sum(), sum(terms)]


def windows_of_windows(device: str, count: int) -> Result:
    """Views that an iteration reads of an earlier result: of views, with other sizes, and empty."""
    x = torch.linspace(-2, 2, 60).reshape(3, 20).to(device)
    for k in range(count):
        rows = (x.exp() / 3).tanh()
        x = (
            torch.cat([rows[1:].flatten()[5:25].view(1, 20), rows[:2]])
            + rows[k % 3, 3:4]
            + rows[2:2].sum()
        )
    return [x]


def inner_gradients(device: str, count: int) -> Result:
    """An inner optimizer that is differentiated."""
    weight = torch.linspace(-1, 1, 12).reshape(4, 3).to(device).requires_grad_()
    x, inner = torch.linspace(0, 1, 20).reshape(5, 4).to(device), weight
    for _ in range(count):
        (step,) = torch.autograd.grad((x @ inner).tanh().square().mean(), inner, create_graph=True)
        inner = inner - 0.1 * step
    (x @ inner).square().sum().backward()
    return [inner, weight.grad]


PROGRAMS: list[Callable[[str, int], Result]] = [
    cells, written_places, random_numbers, kept_results, several_loops, windows_of_windows, inner_gradients]  # fmt: skip


def results(program: Callable[[str, int], Result], device: str, count: int) -> Result:
    torch.manual_seed(count)
    return [tensor.detach().cpu() for tensor in program(device, count)]


def counters(*names: str) -> list[int]:
    _C._sync(True)
    return [_C._counters().get(name, 0) for name in names]


@pytest.mark.parametrize("program", PROGRAMS)
def test_cut_or_not_the_results_are_equal(
    program: Callable[[str, int], Result], executor: str
) -> None:
    _C._set_loop_length(0)
    whole = [results(program, "ftm", count) for count in COUNTS]
    _C._sync(True)
    _C._set_loop_length(700)
    _C._reset()
    (before,) = counters("unrolled")
    for count, expected in zip(COUNTS, whole, strict=True):
        torch.testing.assert_close(results(program, "ftm", count), expected, rtol=1e-5, atol=1e-6)
    assert counters("unrolled")[0] - before >= 4
    if program is not random_numbers:
        expected = results(program, "cpu", 14)
        torch.testing.assert_close(results(program, "ftm", 14), expected, rtol=1e-4, atol=1e-5)


def iterated(x: Tensor, count: int) -> Tensor:
    for _ in range(count):
        x = torch.tanh(x * 1.5 + 0.25).exp().sub(0.5)
    return x


@pytest.fixture
def x() -> Tensor:
    made = torch.ones(3, device="ftm")
    _C._sync(True)
    _C._reset()
    _C._reset_counters()
    return made


def test_the_number_of_iterations_makes_no_programs(x: Tensor) -> None:
    for count in (10, 12, 40):
        iterated(x, count).tolist()
    before = _C._program_count()
    for count in (9, 25, 31, 60, 100):
        iterated(x, count).tolist()
    assert _C._program_count() == before


def test_one_number_of_iterations_is_one_program(x: Tensor) -> None:
    for _ in range(3):
        iterated(x, 20).tolist()
    assert counters("unrolled") == [0] and _C._program_count() == 1


def test_loops_of_one_trace_may_have_different_counts(x: Tensor) -> None:
    """As an optimizer's step has, for parameters of one shape that do not all follow one
    another."""
    for _ in range(3):
        iterated(iterated(x, 6).relu().log1p(), 9).tolist()
    assert counters("unrolled") == [0] and _C._program_count() == 1
    iterated(iterated(x, 6).relu().log1p(), 11).tolist()
    assert counters("unrolled") == [1]


def test_iterations_of_one_trace_may_form_other_runs(x: Tensor) -> None:
    """As an optimizer's step after DistributedDataParallel has rebuilt its buckets, which changes
    the order of parameters."""
    for first, second in ((6, 9), (7, 8)):
        iterated(iterated(x, first).relu().log1p(), second).tolist()
    assert counters("unrolled") == [0] and _C._program_count() == 2
    iterated(iterated(x, 7).relu().log1p(), 9).tolist()
    assert counters("unrolled") == [1]


def test_a_trace_launched_again_and_again_becomes_one_program(x: Tensor) -> None:
    iterated(x, 10).tolist()
    launches, end = [], time.monotonic() + 60
    while time.monotonic() < end and 1 not in launches:
        (before,) = counters("executions")
        iterated(x, 20).tolist()
        launches.append(counters("executions")[0] - before)
    assert launches[0] > 1 and launches[-1] == 1


def test_a_setting_switches_it_off(x: Tensor) -> None:
    _C._set_loop_length(0)
    for count in (10, 12, 14):
        iterated(x, count).tolist()
    assert counters("unrolled") == [0] and _C._program_count() == 3


def test_an_error_is_that_of_its_iteration() -> None:
    """What was computed before it has its value, what was to be written in place after it keeps the
    one that it had."""
    table = torch.arange(5.0, device="ftm")

    def run(count: int, wrong: int) -> list[Tensor]:
        x, state, kept = torch.zeros(3, device="ftm"), torch.ones(3, device="ftm"), []
        _C._sync(True)
        places = torch.tensor([9 if k == wrong else k % 5 for k in range(count)]).to("ftm")
        for k in range(count):
            index = places[k] + x.mul(0).long()  # unknown while the call is recorded
            x = (x + table[index]).sin().mul(2).exp()
            kept.append(x)
        state.add_(x)
        return [*kept, state]

    for count in (8, 12):
        run(count, -1)[-1].tolist()
    expected = run(20, -1)
    made = run(20, 14)
    with pytest.raises(IndexError):
        made[-2].tolist()
    torch.testing.assert_close(
        [tensor.cpu() for tensor in made[:13]], [tensor.cpu() for tensor in expected[:13]]
    )
    assert made[-1].tolist() == [1.0, 1.0, 1.0]
    assert run(20, -1)[-1].tolist() == expected[-1].tolist()
