"""An optimizer's first step, which creates its state, shares the program of later steps: the state is
filled by separate programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ftm_lazy import _C

pytestmark = pytest.mark.usefixtures("forgotten")

Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "Adam, a loop": lambda p: torch.optim.Adam(p, lr=1e-2, foreach=False),
    "Adam, AMSGrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
    "Adam, fused": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=1e-2),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=1e-2),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-2, momentum=0.5, centered=True),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=1e-2),
}


class Begun(torch.optim.Optimizer):
    """State of several dtypes and initial values, some of it never updated."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], fails: bool = False, reads: bool = False
    ) -> None:
        super().__init__(parameters, {})
        self.fails, self.reads = fails, reads

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["count"] = torch.zeros((), dtype=torch.int64, device=p.device)
                    state["half"] = torch.full(p.shape, 0.25, dtype=torch.bfloat16, device=p.device)
                    state["ones"] = torch.ones_like(p)
                    state["kept"] = torch.full_like(p, 3.0)
                    state["empty"] = torch.zeros(0, 4, device=p.device)
                    if self.fails:
                        raise RuntimeError("not now")
                    if self.reads:
                        assert state["count"].item() == 0
                state["count"] += 1
                state["half"].mul_(0.5).add_(p.grad)
                state["ones"].sub_(0.1 * p.grad)
                p.sub_(0.01 * state["half"].float() * state["ones"] * state["count"])


def net_of(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(48, 5), nn.GELU(), nn.Linear(5, 1)
    )


def steps(
    net: nn.Module, optimizer: torch.optim.Optimizer, count: int, device: str
) -> list[Tensor]:
    x = torch.linspace(-1, 1, 4 * 36).reshape(4, 1, 6, 6).to(device)
    for _ in range(count):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in net.parameters()]


def programs() -> int:
    _C._sync(True)
    return _C._program_count()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_second_step_makes_no_program(name: str) -> None:
    net = net_of().to("ftm")
    optimizer = OPTIMIZERS[name](net.parameters())
    made = steps(net, optimizer, 1, "ftm")
    first = programs()
    more = steps(net, optimizer, 3, "ftm")
    assert programs() == first
    expected = net_of()
    other = OPTIMIZERS[name](expected.parameters())
    torch.testing.assert_close(made, steps(expected, other, 1, "cpu"), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(more, steps(expected, other, 3, "cpu"), rtol=1e-3, atol=1e-4)


def test_fills_of_all_sizes_are_one_program(executor: str) -> None:
    parameters = [
        nn.Parameter(torch.ones(shape).to("ftm"))
        for shape in ((3,), (40, 7), (2, 3, 4), (), (1,), (90, 90))
    ]
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    sum(p.sum() for p in parameters).backward()
    before, general = programs(), _C._counters().get("general_programs", 0)
    optimizer.step()
    assert programs() - before == 5 + 1, "instances for five numbers of elements, and the step"
    if executor == "machine":
        assert _C._counters().get("general_programs", 0) - general <= 1
    assert [p.detach().cpu().unique().tolist() for p in parameters] == [pytest.approx([0.9])] * 6


def test_state_of_any_dtype_and_number() -> None:
    net, expected = net_of().to("ftm"), net_of()
    mine, other = Begun(net.parameters()), Begun(expected.parameters())
    made = steps(net, mine, 1, "ftm")
    first = programs()
    more = steps(net, mine, 2, "ftm")
    assert programs() == first
    torch.testing.assert_close(made, steps(expected, other, 1, "cpu"), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(more, steps(expected, other, 2, "cpu"), rtol=1e-3, atol=1e-3)
    for p, q in zip(net.parameters(), expected.parameters(), strict=True):
        state, same = mine.state[p], other.state[q]
        assert state["count"].item() == 3 and state["empty"].shape == (0, 4)
        assert (
            torch.equal(state["kept"].cpu(), same["kept"]) and state["kept"].cpu().shape == q.shape
        )
        torch.testing.assert_close(state["half"].cpu(), same["half"], rtol=1e-2, atol=1e-2)


def test_a_step_that_fails_and_one_that_reads() -> None:
    net, expected = net_of().to("ftm"), net_of()
    failing = Begun(net.parameters(), fails=True)
    with pytest.raises(RuntimeError, match="not now"):
        steps(net, failing, 1, "ftm")
    reading, other = Begun(net.parameters(), reads=True), Begun(expected.parameters(), reads=True)
    made = steps(net, reading, 3, "ftm")
    torch.testing.assert_close(made, steps(expected, other, 3, "cpu"), rtol=1e-3, atol=1e-3)


def test_parameters_in_a_part_of_storage_make_no_program_after_the_second_step() -> None:
    """As FSDP pads a shard: the parameter is pending, with its storage, when the first step ends."""
    x = torch.linspace(-1, 1, 64).reshape(2, 32)

    def train(device: str) -> tuple[Tensor, list[int]]:
        storage = torch.zeros(31 * 32, device=device)
        parameter = nn.Parameter(storage[: 30 * 32].view(30, 32))
        optimizer, given, made = torch.optim.Adam([parameter], lr=1e-2), x.to(device), []
        for _ in range(4):
            optimizer.zero_grad()
            (given @ parameter.t() - 1).square().sum().backward()
            optimizer.step()
            made.append(programs() if device == "ftm" else 0)
        return parameter.detach().cpu(), made

    trained, made = train("ftm")
    assert made[1:] == [made[1]] * 3
    torch.testing.assert_close(trained, train("cpu")[0], rtol=1e-4, atol=1e-5)


def test_uninitialized_memory_makes_no_program_after_the_first_step() -> None:
    """Gradients are gathered in it, as DDP does in its buckets: each step overwrites all parts."""
    net, expected = nn.Linear(8, 4).to("ftm"), nn.Linear(8, 4)
    expected.load_state_dict(net.state_dict())

    def train(net: nn.Module) -> tuple[list[Tensor], list[int]]:
        parameters = list(net.parameters())
        bucket = torch.empty(sum(p.numel() for p in parameters), device=parameters[0].device)
        parts = bucket.split([p.numel() for p in parameters])
        optimizer, made = torch.optim.SGD(parameters, lr=0.1), []
        for _ in range(4):
            net(torch.ones(2, 8).to(bucket.device)).square().sum().backward()
            for part, p in zip(parts, parameters, strict=True):
                part.copy_(p.grad.flatten())
                p.grad = part.view_as(p)
            bucket.mul_(0.5)
            optimizer.step()
            optimizer.zero_grad()
            made.append(programs() if bucket.device.type == "ftm" else 0)
        return [p.detach().cpu() for p in parameters], made

    trained, made = train(net)
    assert made == [made[0]] * 4
    torch.testing.assert_close(trained, train(expected)[0], rtol=1e-4, atol=1e-5)


def test_what_a_program_fills_for_itself_stays_in_it() -> None:
    net = nn.Linear(4, 4).to("ftm")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        before = _C._counters().get("executions", 0)
        hidden = torch.zeros(2, 4, device="ftm")
        for _ in range(3):
            hidden = torch.tanh(net(hidden) + 1)
        hidden.sum().backward()
        optimizer.step()
        _C._sync(True)
        assert _C._counters()["executions"] - before == 1


def test_a_first_step_that_comes_often_gets_a_program_of_its_own() -> None:
    net = nn.Linear(4, 4).to("ftm")
    x = torch.ones(2, 4).to("ftm")
    launches, end = [], time.monotonic() + 60
    while time.monotonic() < end and 1 not in launches:
        net.zero_grad()
        net(x).sum().backward()
        _C._sync(True)
        before = _C._counters()["executions"]
        torch.optim.Adam(net.parameters()).step()
        _C._sync(True)
        launches.append(_C._counters()["executions"] - before)
    assert launches[0] == 5, "two parameters with two moments each"
    assert launches[-1] == 1


def test_switched_off() -> None:
    _C._set_loop_length(0)
    net = net_of().to("ftm")
    optimizer = torch.optim.Adam(net.parameters())
    before = _C._counters().get("executions", 0)
    steps(net, optimizer, 1, "ftm")
    assert _C._counters()["executions"] - before <= 2
