"""Programs for the tests of profiles."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Block(torch.nn.Module):
    """A residual block of two linear layers."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.enter = torch.nn.Linear(width, hidden)
        self.leave = torch.nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.leave(torch.relu(self.enter(x)))


def network(slow: int = -1) -> torch.nn.Module:
    """A network of three blocks; one may be made slow."""
    torch.manual_seed(0)
    blocks = [Block(32, 4096 if k == slow else 48) for k in range(3)]
    return torch.nn.Sequential(*blocks, torch.nn.Linear(32, 4)).to("ftm")


def trainer(model: torch.nn.Module, batch: int = 256) -> Callable[[], Tensor]:
    """A function that trains one step and returns the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(batch, 32).to("ftm"), torch.randint(4, (batch,)).to("ftm")

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step
