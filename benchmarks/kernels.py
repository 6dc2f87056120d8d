"""Times of single memory-bound operations, compared with eager PyTorch and with their bytes.

    python benchmarks/kernels.py [--cores 1] [--cpu-time] [--rounds 30] [--only softmax "row sums"]
        [--json]

Eager and ftm take turns in one process; printed is the minimum over the rounds, in milliseconds.
`bound` is the time to read the operation's inputs and write its outputs once, at the bandwidth of
copying arrays that no cache holds, measured in the same process. Arrays that the last-level cache
holds can be faster. On a busy computer, `--cpu-time` with one core gives steadier figures; waiting
counts up to 50 us.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

ROWS, COLUMNS = 2048, 1024
"""Shape of most inputs: 8 MB of float32."""
STREAM_BYTES = 256 * 2**20
"""Size of the array whose copying gives the bandwidth."""

MIB = 2**20


@dataclass(frozen=True)
class Case:
    """An operation to measure.

    Attributes:
        make: Returns the function to measure, from a device. Its inputs are on the device.
        mebibytes: What it must read and write.
    """

    make: Callable[[str], Callable[[], object]]
    mebibytes: float


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Memory-bound operations on ftm and in eager.")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="threads of both")
    parser.add_argument("--cpu-time", action="store_true", help="count only this process's time")
    parser.add_argument("--rounds", type=int, default=30, help="how often the two take turns")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these operations")
    parser.add_argument("--json", action="store_true", help="print {name: [ftm, eager, bound]}")
    args = parser.parse_args()
    os.environ["FTM_CORES"] = os.environ["OMP_NUM_THREADS"] = str(args.cores)
    cases = operations()
    names = args.only or list(cases)
    if unknown := [name for name in names if name not in cases]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(cases)}")
    clock = time.process_time if args.cpu_time else time.perf_counter
    bandwidth = copy_bandwidth(clock)
    results = {}
    if not args.json:
        print(f"copying moves {bandwidth / 1e9:.1f} GB/s on {args.cores} cores")
        print(f"{'ms':<22}{'ftm':>9}{'eager':>9}{'bound':>9}{'ftm/eager':>11}{'ftm/bound':>11}")
    for name in names:
        ftm, eager = measure(cases[name], args.rounds, clock)
        bound = cases[name].mebibytes * MIB / bandwidth * 1e3
        results[name] = [ftm, eager, bound]
        if not args.json:
            print(
                f"{name:<22}{ftm:9.3f}{eager:9.3f}{bound:9.3f}{ftm / eager:11.2f}"
                f"{ftm / bound:11.2f}",
                flush=True,
            )
    if args.json:
        print(json.dumps(results))


def measure(case: Case, rounds: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Return the milliseconds on ftm and in eager."""
    import ftm_lazy

    functions = {device: case.make(device) for device in ("ftm", "cpu")}
    best = dict.fromkeys(functions, float("inf"))
    for number in range(rounds + 3):
        for device, function in functions.items():
            begin = clock()
            result = function()
            if device == "ftm":
                ftm_lazy.sync(wait=True)
            seconds = clock() - begin
            del result
            if number >= 3:  # the first ones compile
                best[device] = min(best[device], seconds)
    return best["ftm"] * 1e3, best["cpu"] * 1e3


def copy_bandwidth(clock: Callable[[], float]) -> float:
    """Return the bytes per second, read and written, of copying an array that exceeds caches."""
    import torch

    source = torch.ones(STREAM_BYTES // 4)
    target = torch.empty_like(source).zero_()
    best = float("inf")
    for _ in range(5):
        begin = clock()
        target.copy_(source)
        best = min(best, clock() - begin)
    return 2 * STREAM_BYTES / best


def operations() -> dict[str, Case]:
    """Return the operations by name."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor

    matrix = ROWS * COLUMNS * 4 / MIB

    def on(shape: tuple[int, ...], function: Callable[[Tensor], object], mebibytes: float) -> Case:
        """A function of one tensor of normal random numbers."""

        def make(device: str) -> Callable[[], object]:
            x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)
            return lambda: function(x)

        return Case(make, mebibytes)

    def on_matrix(function: Callable[[Tensor], object], passes: float = 2) -> Case:
        return on((ROWS, COLUMNS), function, passes * matrix)

    def chain(x: Tensor) -> Tensor:
        for _ in range(5):
            x = (x * 1.01 + 0.5).abs()
        return x

    def layer_norm(device: str) -> Callable[[], object]:
        x = torch.randn(ROWS, COLUMNS).to(device)
        norm = torch.nn.LayerNorm(COLUMNS).to(device).requires_grad_(False)
        return lambda: norm(x)

    def batch_norm(device: str) -> Callable[[], object]:
        x = torch.randn(16, 64, 56, 56).to(device)
        norm = torch.nn.BatchNorm2d(64).to(device).requires_grad_(False)
        return lambda: norm(x)

    def cross_entropy(device: str) -> Callable[[], object]:
        logits = torch.randn(512, 8192).to(device).requires_grad_()
        targets = torch.randint(0, 8192, (512,)).to(device)

        def run() -> object:
            logits.grad = None
            F.cross_entropy(logits, targets).backward()
            return logits.grad

        return run

    def adamw(device: str) -> Callable[[], object]:
        parameter = torch.nn.Parameter(torch.randn(8 * MIB).to(device))
        parameter.grad = torch.randn(8 * MIB).to(device)
        optimizer = torch.optim.AdamW([parameter], lr=1e-3, fused=device == "cpu")
        return optimizer.step

    def gather(device: str) -> Callable[[], object]:
        table = torch.randn(32768, 256).to(device)
        rows = torch.randint(0, 32768, (8192,)).to(device)
        return lambda: F.embedding(rows, table)

    return {
        "scale": on((4 * MIB,), lambda x: x * 1.5, 32),
        "ten elementwise": on_matrix(chain),
        "exp": on_matrix(torch.exp),
        "gelu": on_matrix(F.gelu),
        "silu": on_matrix(F.silu),
        "softmax": on_matrix(lambda x: torch.softmax(x, -1)),
        "layer norm": Case(layer_norm, 2 * matrix),
        "row sums": on_matrix(lambda x: x.sum(1), 1),
        "column sums": on_matrix(lambda x: x.sum(0), 1),
        "transpose": on_matrix(lambda x: x.t().contiguous()),
        "batch norm": Case(batch_norm, 2 * 16 * 64 * 56 * 56 * 4 / MIB),
        "cross-entropy": Case(cross_entropy, 2 * 512 * 8192 * 4 / MIB),
        "adamw": Case(adamw, 7 * 32),
        "max-pool": on((16, 64, 56, 56), lambda x: F.max_pool2d(x, 2), 1.25 * 12.25),
        "gather": Case(gather, 16),
        "top-k": on((512, 4096), lambda x: torch.topk(x, 16), 8),
    }


if __name__ == "__main__":
    main()
