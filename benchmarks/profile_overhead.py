"""Time of a training step with and without a profile.

    python benchmarks/profile_overhead.py [--rounds 20] [--json]

Steps with and without `ftm_lazy.profile` take turns, so that both meet the same conditions. Printed
are the medians, the median of the pairs' ratios, and how much one profiled step records.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import nn

import ftm_lazy


def mlp_step() -> Callable[[], None]:
    """Return a step of a network of eight wide layers."""
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(512, 10)).to("ftm")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(256, 512).to("ftm"), torch.randint(10, (256,)).to("ftm")

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        ftm_lazy.sync(wait=True)

    return step


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    step = mlp_step()
    for _ in range(3):
        step()
    times: dict[bool, list[float]] = {False: [], True: []}
    recorded = None
    for number in range(given.rounds):
        for profiled in (False, True) if number % 2 else (True, False):
            with ftm_lazy.profile() if profiled else nullcontext() as profile:
                begin = time.perf_counter()
                step()
                times[profiled].append(time.perf_counter() - begin)
            recorded = profile or recorded
    assert recorded is not None
    pairs = [on / off for off, on in zip(times[False], times[True], strict=True)]
    found = {
        "step_ms": statistics.median(times[False]) * 1e3,
        "profiled_step_ms": statistics.median(times[True]) * 1e3,
        "median_of_pairs": statistics.median(pairs),
        "kernels": len(recorded.events.kernels),
        "spans_of_cores": len(recorded.events.cores),
        "host_events": len(recorded.events.host),
        "memory_events": len(recorded.events.memory),
    }
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:18} {value:.3f}" if isinstance(value, float) else f"{name:18} {value}")


if __name__ == "__main__":
    main()
