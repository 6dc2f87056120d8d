"""Train with ``torch.compile(backend="ftm")`` and with eager PyTorch; compare the losses.

    python tests/frontends/losses.py [--steps 50] [--model mlp ...]

For each model of `benchmarks/training.py`, on tensors of the CPU and of ftm, two processes in turn
share one cache directory. What is printed: the largest relative difference of a loss from eager's,
fallbacks, graphs compiled after the second step, and programs that the second process compiled. The
exit code is 1 if a loss differs by more than 1e-3, or any of the others is not 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import training

TOLERANCE = 1e-3
"""Relative, of every step's loss."""

FLOAT64 = ("resnet18",)
"""Trained in float64, because eager PyTorch itself does not keep to the tolerance in float32 (see
`training.TASKS`)."""


def serve(name: str, device: str, steps: int) -> None:
    """One process: prints its losses and what the counters say, as JSON. ``eager`` as the device:
    on the CPU, not compiled."""
    import torch

    from ftm_lazy import TorchCompileBackend, metrics

    dtype = torch.float64 if name in FLOAT64 else torch.float32
    if device == "eager":
        step = training.make_step(training.TASKS[name], "cpu", dtype=dtype)
        print(json.dumps({"losses": [step() for _ in range(steps)]}))
        return
    backend = TorchCompileBackend()
    step = training.make_step(
        training.TASKS[name],
        device,
        lambda model: torch.compile(model, backend=backend, fullgraph=True),
        dtype,
    )
    losses = [step(), step()]
    graphs, programs = len(backend.graphs), metrics.counters()["compiles"]
    losses += [step() for _ in range(steps - 2)]
    counters = metrics.counters()
    print(json.dumps({
        "losses": losses, "compiles": counters["compiles"], "graphs": len(backend.graphs),
        "later": len(backend.graphs) - graphs + counters["compiles"] - programs,
        "fallbacks": sum(n for counter, n in counters.items() if counter.startswith("fallback::")),
    }))  # fmt: skip


def run(
    name: str, device: str, steps: int, cache: str, timeout: float
) -> dict[str, list[float] | int]:
    """What a process of its own found; RuntimeError with its last words if it failed."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        __file__,
        "--serve",
        name,
        device,
        "--steps",
        str(steps),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "FTM_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(f"{name} on {device}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument(
        "--model", choices=training.TASKS, action="append", help="only this one; repeat"
    )
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one process")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(*given.serve, given.steps)
        return 0
    right = True
    print(
        f"{'model':<10} {'tensors':<8} {'difference':>11} {'fallbacks':>9} {'later':>6} {'graphs':>7} {'compiles':>9} {'again':>6}"
    )
    for name in given.model or training.TASKS:
        with tempfile.TemporaryDirectory() as folder:
            eager = run(name, "eager", given.steps, folder, given.timeout)["losses"]
            for device in ("cpu", "ftm"):
                first, second = (
                    run(name, device, given.steps, f"{folder}/{device}", given.timeout)
                    for _ in range(2)
                )
                worst = max(
                    abs(a - b) / abs(b) for a, b in zip(first["losses"], eager, strict=True)
                )
                right &= worst <= TOLERANCE and not (
                    first["fallbacks"] or first["later"] or second["compiles"]
                )
                print(
                    f"{name:<10} {device:<8} {worst:>11.2e} {first['fallbacks']:>9} {first['later']:>6} {first['graphs']:>7}"
                    f" {first['compiles']:>9} {second['compiles']:>6}",
                    flush=True,
                )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
