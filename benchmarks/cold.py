"""Time of programs that ftm was not tuned for: with an empty cache, a full cache, and on the CPU.

    python benchmarks/cold.py [--only reinforce ...] [--seed 0] [--json]

Each program runs in separate processes: on ftm with an empty cache, again with the cache of the
first run, and on the CPU. The columns, besides seconds:

- compiles: traces that needed compiling.
- pieces: programs compiled for them.
- again: pieces with the same operations as an earlier one, and other sizes, numbers, operands or
  results.
- instances: specializations of dynamic-shape programs.
- compiling: seconds of compile time.
- same: whether the result is that of the CPU. Programs that sample may differ, since random numbers
  are drawn on the device.

Ratios of one run are comparable, seconds are not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch
from programs import PROGRAMS

LIMIT = 900.0  # seconds for one process


def measure(name: str, device: str, seed: int) -> dict[str, Any]:
    """Run a program in this process; return its seconds, result and compile counters."""
    import ftm_lazy

    torch.manual_seed(seed)
    if device != "cpu":
        torch.zeros(1, device=device).item()  # starts the compiler process
    run = PROGRAMS[name](device)
    if device != "cpu":
        torch.zeros(1, device=device).item()  # copies the parameters
        ftm_lazy.metrics.reset()
    begin = time.perf_counter()
    result = float(run().detach().cpu().double().sum())  # summed on the CPU
    row: dict[str, Any] = {"seconds": time.perf_counter() - begin, "result": result}
    if device != "cpu":
        row |= {
            key: ftm_lazy.metrics.counters()[key]
            for key in ("compiles", "pieces", "instances", "executions")
        }
        causes = ftm_lazy.compile.compile_client.client().stats.causes()
        row["compiling"] = sum(seconds for *_, seconds in causes.values())
        row["again"] = sum(
            pieces
            for cause, (_, pieces, _) in causes.items()
            if cause not in ("first", "new op sequence")
        )
    return row


def child(cache: str, *words: str) -> dict[str, Any]:
    """Run this script in a new process, and return its measurement."""
    command = [sys.executable, __file__, *words]
    done = subprocess.run(
        command,
        env=os.environ | {"FTM_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def compare(name: str, seed: int) -> dict[str, Any]:
    """Measure a program's row of the table."""
    words = "--measure", name, "--seed", str(seed)
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (child(cache, *words) for _ in range(2))
        cpu = child(cache, *words, "--device", "cpu")
    same = abs(cold["result"] - cpu["result"]) <= 1e-3 * max(1.0, abs(cpu["result"]))
    return {
        "cold": cold["seconds"],
        "warm": warm["seconds"],
        "cpu": cpu["seconds"],
        "compiling": cold["compiling"],
        "compiles": cold["compiles"],
        "pieces": cold["pieces"],
        "again": cold["again"],
        "instances": cold["instances"],
        "runs": cold["executions"],
        "warm compiles": warm["compiles"],
        "same": same,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="*",
        choices=PROGRAMS,
        default=list(PROGRAMS),
        metavar="PROGRAM",
        help=", ".join(PROGRAMS),
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="ftm", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.device, options.seed)))
        return
    heads = (
        "cold",
        "warm",
        "cpu",
        "compiling",
        "compiles",
        "pieces",
        "again",
        "instances",
        "runs",
        "warm compiles",
        "same",
    )
    if not options.json:
        print(f"{'program':20}" + "".join(f"{head:>{max(9, len(head) + 2)}}" for head in heads))
    for name in options.only:
        try:
            row = compare(name, options.seed)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            row = {"failed": str(error)[-80:]}
        if options.json:
            print(json.dumps({"program": name} | row), flush=True)
        elif "failed" in row:
            print(f"{name:20} {row['failed']}", flush=True)
        else:
            row["same"] = "yes" if row["same"] else "no"
            print(f"{name:20}" + "".join(_cell(head, row[head]) for head in heads), flush=True)


def _cell(head: str, value: float | str) -> str:
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return f"{text:>{max(9, len(head) + 2)}}"


if __name__ == "__main__":
    main()
