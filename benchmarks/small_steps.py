"""Time of steps that compute little, where the work around a program decides.

    python benchmarks/small_steps.py [--rounds 60] [--only NAME] [--json]

Eager and `ftm` take turns; the minimum over the rounds is printed, in microseconds per step.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[[], object]

CALLS = 10
"""Steps in one round of one device."""


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def inference(device: str) -> Step:
    """Return a step that reads the output of an MLP for one row."""
    torch.manual_seed(0)
    model, row = mlp(64, 128, 128, 4).to(device), torch.randn(1, 64).to(device)

    @torch.no_grad()
    def step() -> object:
        return model(row).cpu()

    return step


def policy(device: str) -> Step:
    """Return a step of an agent: it samples an action and reads it and its log-probability."""
    torch.manual_seed(0)
    model, observation = mlp(4, 64, 64, 2).to(device), torch.randn(1, 4)

    @torch.no_grad()
    def step() -> object:
        actions = torch.distributions.Categorical(logits=model(observation.to(device)))
        action = actions.sample()
        return action.cpu(), actions.log_prob(action).cpu()

    return step


def actor_critic(device: str) -> Step:
    """Return a step of an agent as in Stable-Baselines3: nothing is read before all is recorded."""
    torch.manual_seed(0)
    actor, critic = mlp(4, 64, 64, 2).to(device), mlp(4, 64, 64, 1).to(device)
    observation = torch.randn(1, 4)

    @torch.no_grad()
    def step() -> object:
        seen = observation.to(device)
        actions = torch.distributions.Categorical(logits=actor(seen), validate_args=False)
        value, action = critic(seen), actions.sample()
        log_prob = actions.log_prob(action)
        return action.cpu(), value.cpu(), log_prob.cpu()

    return step


def training(batch: int, *widths: int) -> Callable[[str], Step]:
    """Return a maker of AdamW steps that read the loss."""

    def make(device: str) -> Step:
        torch.manual_seed(0)
        model = mlp(*widths).to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        rows = torch.randn(batch, widths[0]).to(device)
        labels = torch.randint(widths[-1], (batch,)).to(device)

        def step() -> object:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(rows), labels)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    return make


STEPS: dict[str, Callable[[str], Step]] = {
    "inference, MLP 64-128-128-4": inference,
    "sample an action, MLP 4-64-64-2": policy,
    "act and value, MLPs 4-64-64": actor_critic,
    "train MLP 64-128-128-4, batch 1": training(1, 64, 128, 128, 4),
    "train MLP 784-128-10, batch 64": training(64, 784, 128, 10),
}


def measure(make: Callable[[str], Step], rounds: int) -> dict[str, float]:
    """Return the microseconds of a step on each device."""
    steps = {device: make(device) for device in ("cpu", "ftm")}
    for step in steps.values():
        for _ in range(2 * CALLS):
            step()
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        for device, step in steps.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                step()
            best[device] = min(best[device], (time.perf_counter() - start) / CALLS * 1e6)
    return best


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Steps that compute little.")
    parser.add_argument("--rounds", type=int, default=60, help="how often the devices take turns")
    parser.add_argument("--only", choices=sorted(STEPS), help="measure one step")
    parser.add_argument("--json", action="store_true", help="print {name: {device: us}}")
    args = parser.parse_args()
    times = {n: measure(make, args.rounds) for n, make in STEPS.items() if args.only in (None, n)}
    if args.json:
        print(json.dumps(times))
        return
    print(f"{'us per step':<34}{'eager':>8}{'ftm':>8}{'ratio':>8}")
    for name, best in times.items():
        ratio = best["ftm"] / best["cpu"]
        print(f"{name:<34}{best['cpu']:8.1f}{best['ftm']:8.1f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
