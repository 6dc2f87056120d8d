"""Steps of general programs beside those of programs that were compiled for one size.

    python benchmarks/general.py [--first 20 60]

A training step of a transformer at lengths that a general program serves, made from steps at the lengths ``--first``, and at the same
length compiled for it alone; each in a process of its own, one after the other, the best of several steps. Ratios of one run
are comparable, seconds are not.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from programs.language import trained, transformer

LENGTHS = (8, 18, 24, 33, 40, 47, 56, 63, 120)


def step_seconds(length: int, first: list[int]) -> float:
    """The best of some steps at ``length``, after steps at the lengths ``first``."""
    torch.manual_seed(0)
    for size in [*first, length, length]:
        step = trained(transformer, [size])("ftm")
        step()
    seconds = []
    for _ in range(15):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def child(length: int, first: list[int]) -> float:
    """The same in a process with an empty cache."""
    words = [sys.executable, __file__, "--step", str(length), "--first", *map(str, first)]
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(words, env=os.environ | {"FTM_CACHE_DIR": cache}, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, nargs="*", default=[20, 60], help="lengths that the general program is made from")
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(step_seconds(options.step, options.first))
        return
    ratios = []
    for length in LENGTHS:
        general, special = child(length, options.first), child(length, [])
        ratios.append(general / special)
        print(f"length {length:3}  general {general * 1e3:7.2f} ms  special {special * 1e3:7.2f} ms  ratio {ratios[-1]:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
