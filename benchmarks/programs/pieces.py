"""Small habits that made a program for each place or length: stacks, written places, prefixes,
rolls, rates of dropout."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["PROGRAMS"]


def stack(count: int) -> Callable[[str], Callable[[], Tensor]]:
    """A stack of ``count`` computed pieces."""

    def make(device: str) -> Callable[[], Tensor]:
        x = torch.randn(count, 8).to(device)
        return lambda: torch.stack([row * 2 for row in x])

    return make


def written(device: str) -> Callable[[], Tensor]:
    """20 places are written, and each is read."""

    def run() -> Tensor:
        g = torch.zeros(32, 4, device=device)
        for i in range(20):
            g[i, 0] = float(i)
            g[i, 0].item()
        return g

    return run


def prefixes(device: str) -> Callable[[], Tensor]:
    """Prefixes, rolls, a growing concatenation, each read."""
    g = torch.randn(64, 8).to(device)

    def run() -> Tensor:
        grown = g[:1]
        for i in range(1, 40):
            g[:i].sum().item()
            torch.roll(g, i, 0)[0].sum().item()
            grown = torch.cat((grown, g[i : i + 1]))
            grown.mean().item()
        return grown

    return run


def dropout(device: str) -> Callable[[], Tensor]:
    """Three rates."""
    g = torch.randn(64, 8).to(device)

    def run() -> Tensor:
        for rate in (0.1, 0.2, 0.5):
            F.dropout(g, rate).sum().item()
        return g

    return run


PROGRAMS = {
    "stack_128": stack(128),
    "stack_1024": stack(1024),
    "written": written,
    "prefixes": prefixes,
    "dropout": dropout,
}
