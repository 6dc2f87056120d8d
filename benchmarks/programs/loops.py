"""Loops over steps that differ in numbers alone: diffusion and inner optimizers."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .steps import minimize

__all__ = ["PROGRAMS"]


class Denoiser(nn.Module):
    """A small convolutional network that knows the time."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, channels), nn.SiLU(), nn.Linear(channels, channels))
        self.first, self.last = (
            nn.Conv2d(1, channels, 3, padding=1),
            nn.Conv2d(channels, 1, 3, padding=1),
        )
        self.down, self.up = (
            nn.Conv2d(channels, 2 * channels, 3, 2, 1),
            nn.ConvTranspose2d(2 * channels, channels, 4, 2, 1),
        )
        self.norm, self.norm2 = nn.GroupNorm(8, channels), nn.GroupNorm(8, 2 * channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        x = F.silu(self.norm(self.first(x) + self.time(time[:, None])[:, :, None, None]))
        return self.last(x + self.up(F.silu(self.norm2(self.down(x)))))


def diffusion(device: str) -> Callable[[], Tensor]:
    """20 training steps and 100 steps of sampling, as papers' reference code writes them."""
    net = Denoiser().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-4)
    betas = torch.linspace(1e-4, 0.02, 100).to(device)
    alphas = torch.cumprod(1 - betas, 0)

    def train() -> Tensor:
        x, times = torch.randn(16, 1, 16, 16).to(device), torch.randint(100, (16,)).to(device)
        noise = torch.randn_like(x)
        kept = alphas[times].view(-1, 1, 1, 1)
        loss = F.mse_loss(net(kept.sqrt() * x + (1 - kept).sqrt() * noise, times / 100), noise)
        minimize(optimizer, loss)
        return loss

    @torch.no_grad()
    def sample() -> Tensor:
        x = torch.randn(4, 1, 16, 16, device=device)
        for t in reversed(range(100)):
            noise = net(x, torch.full((4,), t / 100, device=device))
            x = (x - betas[t] / (1 - alphas[t]).sqrt() * noise) / (1 - betas[t]).sqrt()
            if t > 0:
                x = x + betas[t].sqrt() * torch.randn_like(x)
        return x

    def run() -> Tensor:
        for _ in range(20):
            train().item()
        return sample()

    return run


def unrolled(device: str) -> Callable[[], Tensor]:
    """A learned initial point: 20 inner steps of gradient descent, differentiated; 5 outer
    steps."""
    weight = nn.Parameter(torch.randn(16, 8).to(device))
    optimizer = torch.optim.Adam([weight], lr=1e-2)
    x, y = torch.randn(64, 16).to(device), torch.randn(64, 8).to(device)

    def run() -> Tensor:
        for _ in range(5):
            inner: Tensor = weight
            for _ in range(20):
                (step,) = torch.autograd.grad(
                    F.mse_loss(torch.tanh(x @ inner), y), inner, create_graph=True
                )
                inner = inner - 0.1 * step
            loss = F.mse_loss(torch.tanh(x @ inner), y)
            minimize(optimizer, loss)
            loss.item()
        return loss

    return run


PROGRAMS = {"diffusion": diffusion, "unrolled": unrolled}
