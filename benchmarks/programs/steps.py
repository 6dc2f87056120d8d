"""What the loops of most programs end with."""

from __future__ import annotations

from torch import Tensor, optim

__all__ = ["minimize"]


def minimize(optimizer: optim.Optimizer, loss: Tensor) -> None:
    """One step of an optimizer down the gradients of a loss, a tensor of one element."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
