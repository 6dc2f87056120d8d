"""CPU times that users wait for without running anything on the device.

    python benchmarks/cpu_time.py [--rounds 5]

Prints the least of the rounds, and its limit. The exit status is 1 if a time exceeds its limit. The
limits leave room for slow machines; they catch algorithms of the wrong order.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable

IMPORT = """
import os, time
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch
begin = time.process_time()
import ftm_lazy
print(time.process_time() - begin)
"""


def import_ftm() -> float:
    """`import ftm_lazy` after PyTorch."""
    return float(subprocess.check_output([sys.executable, "-c", IMPORT], text=True))


def timed(function: Callable[[], object]) -> float:
    gc.collect()
    begin = time.process_time()
    function()
    return time.process_time() - begin


def assemble() -> float:
    """Assemble 100,000 lines."""
    from ftm_backend import assembler

    lines = "    SCID r0\n    SMUL r0, 4, r1\n    SADD r1, 4, r1\n    SMIN r1, 4, r1\n" * 25_000
    return timed(lambda: assembler.assemble(f"@program p, host\n@func main\n{lines}@ret\n"))


def explain_recompiles() -> float:
    """Explain 50 recompiles of a trace of 3,000 operations."""
    from ftm_backend.ir.trace.trace import Trace
    from ftm_lazy.compile.recompile_explainer import CompileHistory, read

    operations = "".join(
        f"  %{i} = aten::add.Scalar(self=%{i - 1}, other=1, alpha=1) : f32[2]\n"
        for i in range(1, 3000)
    )
    history = CompileHistory()

    def run() -> None:
        for size in range(50):
            text = read(
                Trace.parse(f"trace\n  %0 = param f32[{size}]\n{operations}  return %2999\n")
            )
            history.explain(text)
            history.add(text)

    return timed(run)


LIMITS = {import_ftm: 0.15, assemble: 5.0, explain_recompiles: 10.0}
"""Benchmark -> seconds of CPU time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    slow = False
    for benchmark, limit in LIMITS.items():
        seconds = min(benchmark() for _ in range(rounds))
        slow |= seconds > limit
        print(f"{benchmark.__doc__:50} {seconds:8.3f} s, limit {limit} s")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
