"""Matrix products on ftm and in eager PyTorch, by dtype and shape.

    python benchmarks/products.py [--dtypes float32 bfloat16] [--rounds 15] [--json]

The devices take turns, because timings of one machine drift. Printed are the minimum over the
rounds in milliseconds, the ratio eager / ftm, and ftm's rate: of operations (GFLOP/s) for products
of matrices, of the weights' bytes (GB/s) for products of a few rows. A few rows are multiplied by
several weights in turn, which do not fit the caches together. The last line is the rate at which
this machine reads memory.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import ftm_lazy

CACHE_BYTES = 64 << 20
"""More than the last-level cache of a small machine."""
FEW_ROWS = 8


@dataclass(frozen=True)
class Shape:
    """``x[m, k] @ w[k, n]``, or ``x @ w.T`` of ``w[n, k]`` if `linear`."""

    m: int
    n: int
    k: int
    linear: bool

    def __str__(self) -> str:
        return f"{self.m} x {self.k} x {self.n}{' linear' if self.linear else ''}"


SHAPES = [
    Shape(m, n, k, linear)
    for m, n, k in (
        (1, 3072, 768),
        (1, 768, 3072),
        (4, 3072, 768),
        (256, 3072, 768),
        (512, 512, 512),
    )
    for linear in (False, True)
]


def products(
    shape: Shape, dtype: torch.dtype, device: str
) -> tuple[Callable[[], list[Tensor]], int]:
    """Return a function that multiplies by each weight, and the number of weights."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.n, shape.k) if shape.linear else (shape.k, shape.n)
    one = shape.n * shape.k * dtype.itemsize
    count = max(1, CACHE_BYTES // one) if shape.m <= FEW_ROWS else 1
    x = torch.randn(shape.m, shape.k, generator=generator).to(dtype).to(device)
    weights = [torch.randn(size, generator=generator).to(dtype).to(device) for _ in range(count)]
    multiply = F.linear if shape.linear else torch.mm

    def run() -> list[Tensor]:
        results = [multiply(x, w) for w in weights]
        if device == "ftm":
            ftm_lazy.sync(wait=True)
        return results

    return run, count


def seconds(run: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def reading_rate(rounds: int) -> float:
    """Return the bytes per second at which the CPU sums an array in memory."""
    x = torch.ones(4 * CACHE_BYTES // 4)
    return x.numel() * 4 / min(seconds(x.sum) for _ in range(rounds))


def measure(shape: Shape, dtype: torch.dtype, rounds: int) -> dict[str, float]:
    """Return milliseconds of one product on each device, and ftm's rate in units of 1e9."""
    runs = {device: products(shape, dtype, device) for device in ("cpu", "ftm")}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds + 2):
        for device, (run, count) in runs.items():
            best[device] = min(best[device], seconds(run) / count)
    few = shape.m <= FEW_ROWS
    work = shape.n * shape.k * (dtype.itemsize if few else 2 * shape.m)
    return {"eager": best["cpu"] * 1e3, "ftm": best["ftm"] * 1e3, "rate": work / best["ftm"] / 1e9}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtypes", nargs="*", default=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print(f"{'product':34}{'eager ms':>10}{'ftm ms':>10}{'ratio':>8}{'rate':>16}")
    for dtype in options.dtypes:
        for shape in SHAPES:
            row = measure(shape, getattr(torch, dtype), options.rounds)
            name = f"{dtype} {shape}"
            if options.json:
                print(json.dumps({"product": name} | row), flush=True)
                continue
            unit = "GB/s" if shape.m <= FEW_ROWS else "GFLOP/s"
            print(
                f"{name:34}{row['eager']:10.3f}{row['ftm']:10.3f}{row['eager'] / row['ftm']:8.2f}"
                f"{row['rate']:8.1f} {unit}",
                flush=True,
            )
    print(f"memory is read at {reading_rate(options.rounds) / 1e9:.1f} GB/s")


if __name__ == "__main__":
    main()
