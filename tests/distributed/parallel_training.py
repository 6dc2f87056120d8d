"""Trains a small model on two processes, and prints its losses and what its steps cost.

``torchrun --nproc-per-node 2 parallel_training.py fsdp gpt ftm``: with DDP, compiled DDP, FSDP2,
tensor or pipeline parallelism (``ddp``, ``compiled``, ``fsdp``, ``tp``, ``pp``), a GPT or a
convolutional network (``gpt``, ``cnn``), on the device or with gloo on the CPU (``ftm``, ``cpu``).
"""

from __future__ import annotations

import itertools
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import ftm_lazy

STEPS = 20
WIDTH, HEADS, VOCAB, LENGTH, BATCH = 32, 4, 50, 12, 8


class Block(nn.Module):
    """A layer of the GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before_attention(x)
        q, k, v = (
            f(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Embedding(nn.Module):
    """Tokens and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens) + self.positions.weight


def parts(name: str) -> nn.Sequential:
    """The model."""
    if name == "gpt":
        head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB))
        return nn.Sequential(Embedding(), Block(), Block(), head)
    first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(first, second, nn.Flatten(), nn.Linear(16, VOCAB))


def batch(name: str, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The inputs and targets of a step."""
    numbers = torch.Generator().manual_seed(1000 * step + rank)
    if name == "gpt":
        tokens = torch.randint(VOCAB, (BATCH, LENGTH + 1), generator=numbers)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    images = torch.randn(BATCH, 3, 8, 8, generator=numbers)
    return images, torch.randint(VOCAB, (BATCH,), generator=numbers)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def main(way: str, name: str, device_type: str) -> None:
    """Train."""
    rank = int(os.environ["RANK"])
    on_device = device_type == "ftm"
    device = torch.device(device_type, rank) if on_device else torch.device("cpu")
    if on_device:
        torch.ftm.set_device(rank)
    dist.init_process_group(device_type if on_device else "gloo")
    mesh = dist.init_device_mesh(device_type, (2,))
    torch.manual_seed(0)
    model = parts(name).to(device)
    forward, schedule = model, None
    if way in ("ddp", "compiled"):
        forward = nn.parallel.DistributedDataParallel(model)
        if way == "compiled" and on_device:
            forward = torch.compile(forward)
    elif way == "fsdp":
        for part in model:
            if list(part.parameters()):
                fully_shard(part, mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif way == "tp":
        plan = dict.fromkeys(("query", "key", "value", "up"), ColwiseParallel())
        plan |= dict.fromkeys(("out", "down"), RowwiseParallel())
        for part in model:
            if isinstance(part, Block):
                parallelize_module(part, mesh, plan)
    else:
        stage = PipelineStage(model[:2] if rank == 0 else model[2:], rank, 2, device)
        schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=way != "tp")
    losses, costs = [], []
    for step in range(STEPS):
        x, y = (
            t.to(device)
            for t in batch(name, step, rank if way in ("ddp", "compiled", "fsdp") else 0)
        )
        optimizer.zero_grad()
        if schedule is None:
            loss = loss_of(forward(x), y)
            loss.backward()
        else:
            found: list[torch.Tensor] = []
            schedule.step(x) if rank == 0 else schedule.step(target=y, losses=found)
            loss = torch.stack(found).mean() if found else torch.zeros((), device=device)
        optimizer.step()
        losses.append(loss.detach())
        if on_device:
            torch.ftm.synchronize()
            counters = ftm_lazy.metrics.counters()
            costs.append((counters["executions"], counters["compiles"]))
    words = ["loss", *(f"{loss.item():.6f}" for loss in losses)]
    steps = [
        tuple(after - before for before, after in zip(*pair, strict=True))
        for pair in itertools.pairwise(costs)
    ]
    print(f"{rank} {' '.join(words)}\n{rank} steps {steps}\n", end="", flush=True)  # in one write
    dist.destroy_process_group()
    if not on_device:
        # A thread of gloo may still need the GIL to release a tensor. PyTorch without ftm ends such a
        # process by SIGABRT when the interpreter is finalized.
        os._exit(0)


main(*sys.argv[1:4])
