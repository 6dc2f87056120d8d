"""Time to record one operation, compared with running it in eager PyTorch.

    python benchmarks/recording.py [--json]

Eager and `ftm` take turns; the minimum over the rounds is printed, in microseconds per operation.
On `ftm` only recording is measured: the trace runs after the clock has stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

OPERATIONS = 500
ROUNDS = 15


def add(x: Tensor) -> Tensor:
    z = x
    for _ in range(OPERATIONS):
        z = z + x
    return z


def add_in_place(x: Tensor) -> Tensor:
    z = x.clone()
    for _ in range(OPERATIONS):
        z.add_(x)
    return z


def multiply_by_scalar(x: Tensor) -> Tensor:
    z = x
    for _ in range(OPERATIONS):
        z = z * 1.5
    return z


def transpose_chain(x: Tensor) -> Tensor:
    z = x
    for _ in range(OPERATIONS):
        z = z.t()
    return z


CHAINS: dict[str, Callable[[Tensor], Tensor]] = {
    "z = z + x": add,
    "z.add_(x)": add_in_place,
    "z = z * 1.5": multiply_by_scalar,
    "z = z.t(), 500 deep": transpose_chain,
}


@dataclass(frozen=True)
class Cost:
    """Microseconds per operation, the minimum over the rounds."""

    eager: float
    ftm: float


def measure(chain: Callable[[Tensor], Tensor]) -> Cost:
    """Measure `chain` on both devices in turn."""
    best = {"cpu": float("inf"), "ftm": float("inf")}
    tensors = {device: torch.ones(4, 4).to(device) for device in best}
    for _ in range(ROUNDS):
        for device, x in tensors.items():
            torch.accelerator.synchronize()
            start = time.perf_counter()
            result = chain(x)
            best[device] = min(best[device], time.perf_counter() - start)
            del result
    return Cost(*(best[device] / OPERATIONS * 1e6 for device in ("cpu", "ftm")))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Cost of recording one operation.")
    parser.add_argument(
        "--json", action="store_true", help="print {name: [eager, ftm]} in microseconds"
    )
    args = parser.parse_args()
    costs = {name: measure(chain) for name, chain in CHAINS.items()}
    if args.json:
        print(json.dumps({name: [cost.eager, cost.ftm] for name, cost in costs.items()}))
        return
    print(f"{'us per operation':<22}{'eager':>8}{'ftm':>8}{'ratio':>8}")
    for name, cost in costs.items():
        print(f"{name:<22}{cost.eager:8.2f}{cost.ftm:8.2f}{cost.ftm / cost.eager:8.2f}")


if __name__ == "__main__":
    main()
