"""Trains small models on several processes, on the device and with gloo on the CPU.

    python tests/distributed/parallel_training.py                # all ways and models, as a table
    python tests/distributed/parallel_training.py --ways ddp fsdp --models resnet --ranks 2 4

Each rank trains a model first on the CPU, then on the device, from the same parameters and on the
same data, and prints one line of JSON for each training (see `train`).

In float64, the losses must agree to 1e-9: a collective that is wrong, late, or left out changes
them by far more. In float32, a difference says less. Rounding differs between two correct programs,
and training amplifies it; how much, the table shows by a third training, on the CPU from parameters
whose last bit is changed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import ftm_lazy

STEPS = 20
WIDTH, HEADS, VOCAB, LENGTH, BATCH = 32, 4, 50, 12, 8
WAYS = ("ddp", "compiled", "fsdp", "tp", "pp", "1f1b")
DATA_PARALLEL = ("ddp", "compiled", "fsdp")
"""Ways in which each rank has data of its own."""


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


class Residual(nn.Module):
    """A block of ResNet-18: two convolutions with batch norm, and a shortcut around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            convolution = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class Classifier(nn.Module):
    """Two linear layers on the mean of each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(channels, WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.relu(self.up(x.mean((2, 3)))))


def resnet(width: int, depth: int) -> nn.Sequential:
    """ResNet with `depth` blocks in each of four stages, `width` channels in the first one."""
    stem = nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    )
    stages, before = [], width
    for stage in range(4):
        after = width << stage
        first = Residual(before, after, 1 if stage == 0 else 2)
        stages.append(nn.Sequential(first, *(Residual(after, after, 1) for _ in range(depth - 1))))
        before = after
    return nn.Sequential(stem, *stages, Classifier(before))


def cnn() -> nn.Sequential:
    """Two convolutions."""
    first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(first, nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), Classifier(16))


def gpt() -> nn.Sequential:
    """Two layers."""
    head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB))
    return nn.Sequential(Embedding(), Block(), Block(), head)


MODELS: dict[str, tuple[Callable[[], nn.Sequential], int]] = {
    "gpt": (gpt, 0),
    "cnn": (cnn, 8),
    "resnet": (lambda: resnet(8, 1), 32),
    "resnet64": (lambda: resnet(8, 1), 64),
    "resnet18": (lambda: resnet(64, 2), 32),
}
"""Constructors, and the size of the images (0: tokens).

Pipelines train `resnet64`. A microbatch has half of the images, and those of `resnet` have one
pixel in the last stage. Batch norm of these 4 numbers amplifies the last bit: the losses of the CPU
in float32 then differ by 0.008 from those in float64.
"""


def batch(size: int, step: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs and targets of a step; see `MODELS` for `size`."""
    numbers = torch.Generator().manual_seed(1000 * step + number)
    if size == 0:
        tokens = torch.randint(VOCAB, (BATCH, LENGTH + 1), generator=numbers)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    images = torch.randn(BATCH, 3, size, size, generator=numbers)
    return images, torch.randint(VOCAB, (BATCH,), generator=numbers)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def stepper(way: str, model: nn.Sequential, device: torch.device) -> Callable[..., torch.Tensor]:
    """Distribute a model over all processes; return what computes a batch's loss and gradients."""
    mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    forward: nn.Module = model
    if way in ("ddp", "compiled"):
        forward = nn.parallel.DistributedDataParallel(model)
        if way == "compiled" and device.type == "ftm":
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
            if isinstance(part, (Block, Classifier)):
                parallelize_module(part, mesh, plan)
    else:
        part = model[len(model) * rank // ranks : len(model) * (rank + 1) // ranks]
        stage = PipelineStage(part, rank, ranks, device)
        # 1F1B needs as many microbatches as there are stages
        schedule = (
            Schedule1F1B(stage, n_microbatches=4, loss_fn=loss_of)
            if way == "1f1b"
            else ScheduleGPipe(stage, n_microbatches=2, loss_fn=loss_of)
        )

        def pipelined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            losses: list[torch.Tensor] = []
            given = (x,) if rank == 0 else ()
            schedule.step(*given, **({"target": y, "losses": losses} if rank == ranks - 1 else {}))
            return torch.stack(losses).mean() if losses else torch.zeros((), device=device)

        return pipelined

    def trained(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = loss_of(forward(x), y)
        loss.backward()
        return loss

    return trained


def train(
    way: str, name: str, dtype: torch.dtype, device: torch.device, changed_bit: bool = False
) -> dict[str, list[object]]:
    """Train for `STEPS` steps.

    Args:
        way, name: Of `WAYS` and `MODELS`.
        dtype: Of parameters and images.
        device: Of the process.
        changed_bit: Whether to change the last bit of parameters.

    Returns:
        losses: Of each step on this rank; 0 if it has another part of the pipeline.
        steps: Programs, how many of them are new (compiled, or found on disk), and how many calls
            and programs ran on the CPU, of each step after the first.
    """
    torch.manual_seed(0)
    make, size = MODELS[name]
    model = make().to(dtype)
    if changed_bit:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + torch.finfo(dtype).eps)
    compute = stepper(way, model.to(device), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=way != "tp")
    losses, costs = [], []
    for step in range(STEPS):
        x, y = batch(size, step, dist.get_rank() if way in DATA_PARALLEL else 0)
        x, y = x.to(device, dtype if x.is_floating_point() else x.dtype), y.to(device)
        optimizer.zero_grad()
        loss = compute(x, y)
        optimizer.step()
        losses.append(loss.detach())
        if device.type == "ftm":
            torch.ftm.synchronize()
            counters = ftm_lazy.metrics.counters()
            fallbacks = counters["op_by_op_runs"]
            fallbacks += sum(n for key, n in counters.items() if key.startswith("fallback::"))
            made = counters["compiles"] + counters["cache_hits_disk"]
            costs.append((counters["executions"], made, fallbacks))
    steps = [
        tuple(after - before for before, after in zip(*pair, strict=True))
        for pair in itertools.pairwise(costs)
    ]
    return {"losses": [loss.item() for loss in losses], "steps": steps}


def _serve(way: str, name: str, dtype_names: str) -> None:
    """Run the trainings of one rank, and print them."""
    rank = dist.get_node_local_rank()
    device = torch.device("ftm", rank)
    torch.ftm.set_device(rank)
    dist.init_process_group()
    lines = []
    for dtype_name in dtype_names.split(","):
        dtype = getattr(torch, dtype_name)
        trained = {
            "cpu": train(way, name, dtype, torch.device("cpu")),
            "changed": train(way, name, dtype, torch.device("cpu"), changed_bit=True),
            "ftm": train(way, name, dtype, device),
        }
        lines.append(json.dumps({"rank": rank, "dtype": dtype_name, **trained}) + "\n")
    sys.stdout.write("".join(lines))
    sys.stdout.flush()
    dist.destroy_process_group()
    # A thread of gloo may still need the GIL to release a tensor. PyTorch without ftm ends such a
    # process by SIGABRT when the interpreter is finalized.
    os._exit(0)


@dataclass(frozen=True)
class Outcome:
    """What a rank has printed of one dtype."""

    rank: int
    dtype: str
    difference: float
    """The largest one of a loss on the device from that of the CPU."""
    changed: float
    """The largest one between two trainings on the CPU; the second begins with changed bits."""
    loss: float
    """The last one, on the device."""
    steps: list[tuple[int, int, int]]
    """Programs, new programs and fallbacks of each step after the first; see `train`."""


def _difference(losses: list[float], others: list[float]) -> float:
    """Return the largest difference; NaN if a loss is NaN."""
    both = torch.tensor([losses, others], dtype=torch.float64)
    return (both[0] - both[1]).abs().max().item()


def outcomes(output: str) -> Iterator[Outcome]:
    """Yield what the ranks have printed."""
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        cpu, changed, ftm = (found[which]["losses"] for which in ("cpu", "changed", "ftm"))
        yield Outcome(
            found["rank"],
            found["dtype"],
            _difference(ftm, cpu),
            _difference(changed, cpu),
            ftm[-1],
            [tuple(step) for step in found["ftm"]["steps"]],
        )


def main() -> None:
    """Print a table of all ways, models and numbers of ranks."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from distributed.ranks import run_ranks

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--models", nargs="+", default=["cnn", "resnet", "gpt"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--dtypes", default="float64,float32")
    parser.add_argument("--serve", nargs=3, metavar=("WAY", "MODEL", "DTYPES"))
    options = parser.parse_args()
    if options.serve:
        _serve(*options.serve)
        return
    print("way      model    ranks dtype    difference changed bit    loss  programs")
    for way, model, ranks in itertools.product(options.ways, options.models, options.ranks):
        with tempfile.TemporaryDirectory() as folder:
            output = run_ranks(
                Path(__file__),
                "--serve",
                way,
                model,
                options.dtypes,
                ranks=ranks,
                folder=Path(folder),
            )
        found = list(outcomes(output))
        for dtype in options.dtypes.split(","):
            own = [outcome for outcome in found if outcome.dtype == dtype]
            numbered = list(enumerate(zip(*(outcome.steps for outcome in own), strict=True), 2))
            programs = {step[0] for number, steps in numbered if number > 3 for step in steps}
            compiling = [number for number, steps in numbered if any(step[1] for step in steps)]
            fallbacks = sum(step[2] for _, steps in numbered for step in steps)
            difference, changed, loss = (
                max(getattr(outcome, name) for outcome in own)
                for name in ("difference", "changed", "loss")
            )
            print(
                f"{way:8} {model:8} {ranks:5} {dtype} {difference:11.1e} {changed:11.1e} "
                f"{loss:7.3f}  {programs} a step, new ones in steps {compiling}, "
                f"{fallbacks} fallbacks",
                flush=True,
            )


if __name__ == "__main__":
    main()
