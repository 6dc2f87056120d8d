"""Training loops that read much, little or nothing: one program a step, and none compiled after the
third."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import ftm_lazy
import ftm_lazy.torch_xla.core.xla_model as xm
from e2e.counting import counting_steps, fallbacks
from ftm_lazy import _C

STEPS = 12


class Loop:
    """A small regression with momentum whose loop body the tests vary."""

    def __init__(
        self, optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW, **options: float
    ) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to("ftm")
        self.optimizer = optimizer(self.model.parameters(), **options)
        self.inputs = torch.randn(8, 16)
        self.targets = torch.randn(8, 4)

    def step(self) -> tuple[Tensor, Tensor]:
        outputs = self.model(self.inputs.to("ftm"))
        loss = nn.functional.mse_loss(outputs, self.targets.to("ftm"))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss, outputs


def read_loss(loss: Tensor, outputs: Tensor) -> None:
    assert loss.item() > 0


def read_nothing(loss: Tensor, outputs: Tensor) -> None:
    return None


def read_five(loss: Tensor, outputs: Tensor) -> None:
    values = (
        loss,
        outputs.detach().mean(),
        outputs.detach().std(),
        outputs.detach().amax(),
        outputs.norm(),
    )
    assert all(torch.isfinite(torch.tensor(v.item())) for v in values)


def mark_step(loss: Tensor, outputs: Tensor) -> None:
    xm.mark_step()


def run(loop: Loop, after: Callable[[Tensor, Tensor], None], steps: int = STEPS):
    with counting_steps() as counters:
        for _ in range(steps):
            after(*loop.step())
        counters.record()
    return counters


@pytest.mark.parametrize("after", [read_loss, read_nothing, mark_step])
def test_one_program_a_step(after) -> None:
    counters = run(Loop(lr=1e-2), after)
    assert counters.grown("executions", 3, STEPS - 1) == STEPS - 4
    assert counters.grown("compiles", 2) + counters.grown("cache_hits_disk", 2) == 0
    assert fallbacks(counters.snapshots[-1]) == {}


def test_metrics_computed_before_the_step_cost_no_program_of_their_own() -> None:
    loop = Loop(lr=1e-2)

    def one_step() -> None:
        outputs = loop.model(loop.inputs.to("ftm"))
        loss = nn.functional.mse_loss(outputs, loop.targets.to("ftm"))
        metrics = [loss, outputs.mean(), outputs.std(), outputs.amax(), outputs.norm()]
        loop.optimizer.zero_grad()
        loss.backward()
        loop.optimizer.step()
        assert all(torch.isfinite(torch.tensor(m.item())) for m in metrics)

    with counting_steps() as counters:
        for _ in range(STEPS):
            one_step()
    assert counters.grown("executions", 3, STEPS - 1) == STEPS - 4
    assert counters.grown("compiles", 2) + counters.grown("cache_hits_disk", 2) == 0


def read_five_in_turn(loss: Tensor, outputs: Tensor) -> None:
    assert loss.item() > 0
    for metric in (Tensor.mean, Tensor.std, Tensor.amax, Tensor.norm):
        assert metric(outputs.detach()).item() > -100


@pytest.mark.parametrize(("after", "programs"), [(read_five, 1), (read_five_in_turn, 5)])
def test_metrics_computed_after_the_step(after, programs: int) -> None:
    """A step that was followed by metrics waits for them; of what is computed when it is read, each
    is a program."""
    counters = run(Loop(lr=1e-2), after)
    assert counters.grown("executions", 3, STEPS - 1) == programs * (STEPS - 4)
    assert counters.grown("compiles", 2) + counters.grown("cache_hits_disk", 2) == 0
    assert fallbacks(counters.snapshots[-1]) == {}


def test_metrics_of_every_third_step_cost_one_program_each() -> None:
    """The step after one with metrics waits for some in vain, and is launched where the next step
    begins."""
    loop = Loop(lr=1e-2)
    with counting_steps() as counters:
        for step in range(STEPS):
            loss, outputs = loop.step()
            if step % 3 == 0:
                read_five(loss, outputs)
        loop.step()
        counters.record()
    assert counters.grown("executions", 5, 11) == 6 + 2
    assert counters.grown("compiles", 5) + counters.grown("cache_hits_disk", 5) == 0


def test_two_optimizers_keep_their_own_programs() -> None:
    """What follows the second one's step waits; the first one's step is launched where its model is
    used again."""
    torch.manual_seed(0)
    first, second = (nn.Linear(8, 8).to("ftm") for _ in range(2))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (first, second)]
    inputs = torch.randn(4, 8).to("ftm")
    with counting_steps() as counters:
        for _ in range(STEPS):
            for optimizer in optimizers:
                optimizer.zero_grad()
                second(first(inputs)).square().mean().backward()
                optimizer.step()
            metrics = [p.detach().norm() for p in first.parameters()]
            outputs = [m.item() for m in metrics]
        counters.record()
    assert all(value > 0 for value in outputs)
    third = 2 * 3 - 1
    assert counters.grown("compiles", third) + counters.grown("cache_hits_disk", third) == 0
    assert counters.grown("executions", third, 2 * STEPS - 1) == 2 * (STEPS - 3)


def test_a_hundred_steps_that_read_nothing() -> None:
    loop = Loop(lr=1e-2)
    first = loop.step()[0].item()
    counters = run(loop, read_nothing, steps=100)
    assert counters.grown("compiles", 2) + counters.grown("cache_hits_disk", 2) == 0
    assert loop.step()[0].item() < first


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adam])
def test_learning_rates_of_any_value_share_a_program(optimizer) -> None:
    options = {"momentum": 0.9} if optimizer is torch.optim.SGD else {"eps": 1e-3}
    rates = [1e-2, 1e-2, 1e-2, 0.0, 1.0, 1e-3, 0.5, 0.0, 1e-3, 1.0]
    # Traces of other tests would have this one cut, and its whole program takes over later.
    _C._reset()
    loop = Loop(optimizer, lr=rates[0], **options)
    with counting_steps() as counters:
        for rate in rates:
            loop.optimizer.param_groups[0]["lr"] = rate
            loop.step()
    assert counters.grown("compiles", 2) + counters.grown("cache_hits_disk", 2) == 0


def test_loss_falls_the_same_as_on_the_cpu() -> None:
    losses = {}
    for device in ("cpu", "ftm"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        x, y = torch.randn(8, 16).to(device), torch.randn(8, 4).to(device)
        losses[device] = []
        for _ in range(30):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    torch.testing.assert_close(
        torch.tensor(losses["ftm"]), torch.tensor(losses["cpu"]), rtol=1e-4, atol=1e-6
    )


def test_counters_have_their_names() -> None:
    Loop(lr=1e-2).step()[0].item()
    counters = ftm_lazy.metrics.counters()
    names = "ops_traced syncs executions compiles recompiles cache_hits_memory cache_hits_disk compile_failures"
    assert set(names.split()) <= set(counters)
    assert counters["ops_traced"] > 20 and counters["executions"] >= 1
