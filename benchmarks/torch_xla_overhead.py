"""Overhead of a torch_xla training loop compared with a plain one.

    python benchmarks/torch_xla_overhead.py [--steps 50] [--rounds 9] [--cpu] [--json]

Equal models train on the same batches, on ftm, in one process; the loops take turns, in alternating
order.

- plain: copies batches with ``.to(device)`` and reads the loss every ten steps.
- again: the same; its difference to `plain` shows the noise of this host.
- torch_xla: uses `MpDeviceLoader`, `optimizer_step` and `mark_step`, reads the loss in a closure
  every ten steps, and formats the metrics report at the end.

Printed are the minimum time of a step, its ratio to the plain loop's, and the median of the ratios
of the rounds, which is less sensitive to noise. On a shared host, `--cpu` measures the CPU time of
the process's threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import astuple, dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ftm_lazy.torch_xla.core.xla_model as xm
import ftm_lazy.torch_xla.debug.metrics as met
import ftm_lazy.torch_xla.distributed.parallel_loader as pl

LOG_STEPS = 10


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": perceptron,
    "convolutions": convolutions,
}


class Run:
    """A model, its optimizer and its data."""

    def __init__(self, make: Callable[[], nn.Module], steps: int) -> None:
        torch.manual_seed(0)
        self.device = torch.device("ftm")
        self.model = make().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        data = TensorDataset(torch.randn(64 * steps, 1, 28, 28), torch.randint(10, (64 * steps,)))
        self.loader = DataLoader(data, batch_size=64)
        self.losses: list[float] = []

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        return loss


def plain(run: Run) -> None:
    """Train with a loop for any device."""
    for index, (x, y) in enumerate(run.loader):
        loss = run.step(x.to(run.device), y.to(run.device))
        run.optimizer.step()
        if index % LOG_STEPS == 0:
            run.losses.append(loss.item())
    torch.accelerator.synchronize()


def torch_xla_style(run: Run) -> None:
    """Train with a loop in the style of torch_xla's examples."""

    def report(loss: torch.Tensor) -> None:
        run.losses.append(loss.item())

    met.clear_all()
    for index, (x, y) in enumerate(pl.MpDeviceLoader(run.loader, run.device)):
        loss = run.step(x, y)
        xm.optimizer_step(run.optimizer)
        if index % LOG_STEPS == 0:
            xm.add_step_closure(report, args=(loss,))
        xm.mark_step()
    met.metrics_report()
    xm.wait_device_ops()


LOOPS = {"plain": plain, "again": plain, "torch_xla": torch_xla_style}


@dataclass(frozen=True)
class Cost:
    """A step's minimum seconds, their ratio to plain's, and the median ratio of the rounds."""

    seconds: float
    ratio: float
    median: float


def measure(
    make: Callable[[], nn.Module], steps: int, rounds: int, clock: Callable[[], float]
) -> dict[str, Cost]:
    """Measure the loops in turns."""
    runs = {name: Run(make, steps) for name in LOOPS}
    times: dict[str, list[float]] = {name: [] for name in LOOPS}
    for index in range(-1, rounds):  # the first compiles
        for name in sorted(LOOPS, reverse=index % 2 == 0):
            start = clock()
            LOOPS[name](runs[name])
            if index >= 0:
                times[name].append((clock() - start) / steps)
    if any(run.losses != runs["plain"].losses for run in runs.values()):
        raise AssertionError("the loops compute different losses")
    least = min(times["plain"])
    return {
        name: Cost(
            min(own),
            min(own) / least,
            statistics.median(a / b for a, b in zip(own, times["plain"], strict=True)),
        )
        for name, own in times.items()
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description="Overhead of a torch_xla training loop compared with a plain one."
    )
    parser.add_argument("--steps", type=int, default=50, help="of one turn")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--cpu", action="store_true", help="time of the process's threads rather than of the clock"
    )
    parser.add_argument(
        "--json", action="store_true", help="print {model: {loop: [seconds, ratio, median ratio]}}"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    clock = time.process_time if args.cpu else time.perf_counter
    costs = {name: measure(make, args.steps, args.rounds, clock) for name, make in MODELS.items()}
    if args.json:
        print(
            json.dumps(
                {
                    name: {loop: astuple(cost) for loop, cost in of.items()}
                    for name, of in costs.items()
                }
            )
        )
        return 0
    print(f"{'':<16}{'loop':<12}{'ms per step':>12}{'ratio':>8}{'median ratio':>15}")
    for name, loops in costs.items():
        for loop, cost in loops.items():
            figures = f"{1e3 * cost.seconds:12.2f}{cost.ratio:8.3f}{cost.median:15.3f}"
            print(f"{name:<16}{loop:<12}{figures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
