"""Time of a training step of the example models, compared with eager PyTorch on the CPU.

    python benchmarks/step_time.py [--rounds 7] [--json]

The devices take turns within one run, because timings of one machine drift. Printed are the minimum
over the rounds, in milliseconds per step, and the ratio of the two.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import digits
import tiny_gpt

Step = Callable[[], float]


def digits_step(model: str, device: str) -> Step:
    """Return a step of the digits training, with batch size 64, that reads its loss."""
    torch.manual_seed(0)
    net = digits.MODELS[model]().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    images, labels = digits.digits()[0][:64]

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images.to(device)), labels.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        optimizer.step()
        return loss.item()

    return step


def gpt_step(device: str) -> Step:
    """Return a step of tiny_gpt (two accumulated batches of 16x64) that reads its loss."""
    torch.manual_seed(0)
    model = tiny_gpt.GPT(tiny_gpt.Shape()).to(device)
    optimizer = tiny_gpt.make_optimizer(model, tiny_gpt.parse([]))
    data = tiny_gpt.batches(tiny_gpt.standard_library(0.1), 16, model.shape.context, seed=0)
    inputs = [next(data) for _ in range(2)]

    def step() -> float:
        total = torch.zeros((), device=device)
        for tokens, targets in inputs:
            logits = model(tokens.to(device))
            loss = (
                F.cross_entropy(
                    logits.view(-1, tiny_gpt.VOCABULARY), targets.to(device).reshape(-1)
                )
                / 2
            )
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total.item()

    return step


STEPS: dict[str, tuple[Callable[[str], Step], int]] = {
    "digits mlp": (lambda device: digits_step("mlp", device), 30),
    "digits cnn": (lambda device: digits_step("cnn", device), 20),
    "tiny_gpt": (gpt_step, 3),
}
"""Name -> (function from a device to a step, steps in one round)."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of the first step on ftm (with compiling), and of later steps on each device."""

    first: float
    eager: float
    ftm: float

    @property
    def ratio(self) -> float:
        return self.ftm / self.eager


def measure(name: str, rounds: int) -> Times:
    """Measure one of `STEPS` on both devices in turn."""
    make, count = STEPS[name]
    steps = {device: make(device) for device in ("cpu", "ftm")}
    start = time.perf_counter()
    steps["ftm"]()
    first = time.perf_counter() - start
    for step in steps.values():
        for _ in range(3):
            step()
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        for device, step in steps.items():
            start = time.perf_counter()
            for _ in range(count):
                step()
            best[device] = min(best[device], (time.perf_counter() - start) / count)
    return Times(first * 1e3, best["cpu"] * 1e3, best["ftm"] * 1e3)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Training steps on ftm and in eager PyTorch.")
    parser.add_argument("--rounds", type=int, default=7, help="how often the devices take turns")
    parser.add_argument("--only", choices=sorted(STEPS), help="measure one model")
    parser.add_argument(
        "--json", action="store_true", help="print {name: [first, eager, ftm]} in ms"
    )
    args = parser.parse_args()
    times = {name: measure(name, args.rounds) for name in STEPS if args.only in (None, name)}
    if args.json:
        print(json.dumps({name: [t.first, t.eager, t.ftm] for name, t in times.items()}))
        return
    print(f"{'ms per step':<14}{'first':>10}{'eager':>10}{'ftm':>10}{'ftm/eager':>11}")
    for name, t in times.items():
        print(f"{name:<14}{t.first:10.0f}{t.eager:10.2f}{t.ftm:10.2f}{t.ratio:11.2f}")


if __name__ == "__main__":
    main()
