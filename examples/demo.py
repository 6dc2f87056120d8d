"""The demonstration that `make demo` runs: the digits CNN on `ftm`, then a table of what happened.

    python examples/demo.py [--epochs 15]

It trains the same network on the CPU as well, so that loss, accuracy and step time stand side by
side.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("FTM_DUMP", str(Path(tempfile.gettempdir()) / f"ftm_dump_{os.getpid()}"))

import digits
from rich.console import Console
from rich.table import Table

import ftm_lazy

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import step_time

MACHINE_COUNTERS = ("ops_traced", "executions", "compiles", "cache_hits_memory", "cache_hits_disk")


def main() -> None:
    """Trains on both devices, measures, prints."""
    parser = argparse.ArgumentParser(
        description="Train the digits CNN on ftm and show what happened."
    )
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args()
    console = Console()
    options = ["--model", "cnn", "--epochs", str(args.epochs)]

    console.rule("the digits CNN on ftm")
    on_ftm = digits.train(digits.parse(["--device", "ftm", *options]))
    counters = ftm_lazy.metrics.counters()
    console.rule("the same on the CPU, quietly")
    on_cpu = digits.train(digits.parse(["--device", "cpu", "--quiet", *options]))
    times = step_time.measure("CNN on digits, 64x1x8x8", rounds=5, with_inductor=False)

    table = Table(title=f"digits CNN, {len(on_ftm.losses)} steps of 64 images")
    table.add_column("")
    table.add_column("ftm", justify="right")
    table.add_column("cpu, eager", justify="right")
    table.add_row("loss of the last step", f"{on_ftm.losses[-1]:.4f}", f"{on_cpu.losses[-1]:.4f}")
    table.add_row(
        "held-out accuracy", f"{on_ftm.accuracies[-1]:.2%}", f"{on_cpu.accuracies[-1]:.2%}"
    )
    table.add_row("step time", f"{times.ftm:.2f} ms", f"{times.eager:.2f} ms", end_section=True)
    for name in MACHINE_COUNTERS:
        table.add_row(name.replace("_", " "), f"{counters.get(name, 0):,}", "")
    fallbacks = sum(n for name, n in counters.items() if name.startswith("fallback::"))
    table.add_row("fallbacks to the CPU", f"{fallbacks:,}", "")
    console.print(table)
    console.print(
        f"The stages of every compiled trace are in {os.environ['FTM_DUMP']}", soft_wrap=True
    )
    console.print(
        "(00_trace, 01_torch, 02_linalg, ... and the assembly, which `ftm run` can run again)."
    )


if __name__ == "__main__":
    main()
