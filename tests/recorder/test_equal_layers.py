"""Deep networks of equal layers: their steps are cut layer by layer, so that depth makes no
programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ftm_lazy import _C

pytestmark = pytest.mark.usefixtures("forgotten")


class Block(nn.Module):
    """An attention block of a transformer over sequences of 4 tokens, 8 wide."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(8), nn.LayerNorm(8)])
        self.mix, self.out, self.up, self.down = (
            nn.Linear(8, 24),
            nn.Linear(8, 8),
            nn.Linear(8, 16),
            nn.Linear(16, 8),
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(1, 2)
            for part in self.mix(self.norms[0](x)).chunk(3, dim=-1)
        )
        mixed = (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


Optimizer = Callable[[nn.Module], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "AdamW": lambda net: torch.optim.AdamW(net.parameters(), lr=1e-2, eps=1e-2),
    "AdamW, a loop": lambda net: torch.optim.AdamW(
        net.parameters(), lr=1e-2, eps=1e-2, foreach=False
    ),
    "momentum": lambda net: torch.optim.SGD(
        net.parameters(), lr=1e-2, momentum=0.9, nesterov=True, weight_decay=1e-2
    ),
    "RMSprop": lambda net: torch.optim.RMSprop(net.parameters(), lr=1e-3, eps=1e-2, centered=True),
}


def trained(
    device: str, depth: int, optimizer: Optimizer, clips: bool = False, steps: int = 3
) -> list[Tensor]:
    """Losses and parameters after some steps."""
    torch.manual_seed(depth)
    net = nn.Sequential(nn.Linear(5, 8), *(Block() for _ in range(depth)), nn.Linear(8, 3))
    x, target = torch.randn(2, 4, 5).to(device), torch.randn(2, 4, 3).to(device)
    net = net.to(device)
    steps_of = optimizer(net)
    losses = []
    for _ in range(steps):
        steps_of.zero_grad()
        loss = F.mse_loss(net(x), target)
        loss.backward()
        if clips:
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        steps_of.step()
        losses.append(loss.detach().cpu())
    return [*losses, *(parameter.detach().cpu() for parameter in net.parameters())]


def counted(name: str) -> int:
    _C._sync(True)
    return _C._counters().get(name, 0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_layers_compute_what_the_whole_step_does(name: str, clips: bool) -> None:
    before = counted("unrolled")
    cut = trained("ftm", 14, OPTIMIZERS[name], clips)
    assert counted("unrolled") - before == 3
    _C._set_loop_length(0)
    whole = trained("ftm", 14, OPTIMIZERS[name], clips)
    assert counted("unrolled") - before == 3
    torch.testing.assert_close(cut, whole, rtol=1e-5, atol=1e-6)
    losses = trained("cpu", 14, OPTIMIZERS[name], clips)[:3]
    torch.testing.assert_close(cut[:3], losses, rtol=1e-3, atol=1e-4)


def test_depth_makes_no_programs() -> None:
    trained("ftm", 14, OPTIMIZERS["AdamW"])
    programs = _C._program_count()
    assert programs <= 14
    for depth in (16, 19, 24):
        trained("ftm", depth, OPTIMIZERS["AdamW"])
    assert _C._program_count() == programs


def test_a_shallow_network_is_one_program_a_step() -> None:
    before, programs = counted("unrolled"), _C._program_count()
    trained("ftm", 2, OPTIMIZERS["momentum"], steps=4)
    assert counted("unrolled") == before and _C._program_count() - programs <= 3


def test_layers_that_differ_are_one_program() -> None:
    widths = range(3, 93)
    net = nn.Sequential(
        *(nn.Sequential(nn.Linear(a, a + 1), nn.LayerNorm(a + 1), nn.GELU()) for a in widths)
    ).to("ftm")
    before = counted("unrolled")
    net(torch.ones(2, 3).to("ftm")).sum().backward()
    assert counted("unrolled") == before


def test_inference_and_gradients_that_stay() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*(Block() for _ in range(30)))
    x = torch.randn(2, 4, 8)
    expected, kept = net(x), []
    expected.sum().backward()
    gradients = [parameter.grad for parameter in net.parameters()]
    net.zero_grad()
    net = net.to("ftm")
    before = counted("unrolled")
    with torch.no_grad():
        y = x.to("ftm")
        for block in net:
            y = block(y)
            kept.append(y[:, 1:3])
        torch.testing.assert_close(y.cpu(), expected, rtol=1e-3, atol=1e-4)
    assert kept[7].cpu().shape == (2, 2, 8)
    net(x.to("ftm")).sum().backward()
    torch.testing.assert_close(
        [p.grad.cpu() for p in net.parameters()], gradients, rtol=1e-3, atol=1e-3
    )
    assert counted("unrolled") >= before + 2


def test_a_fault_in_a_layer_leaves_parameters_as_they_were() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(7, 8), *(Block() for _ in range(10))).to("ftm")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

    def step(tokens: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(tokens).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    good = torch.arange(8).reshape(2, 4).to("ftm") % 7
    step(good).item()
    before = [parameter.detach().cpu() for parameter in net.parameters()]
    with pytest.raises(IndexError):
        step(good + 5).item()
    assert all(
        torch.equal(a, b.detach().cpu()) for a, b in zip(before, net.parameters(), strict=True)
    )
    assert step(good).isfinite().item()
