"""Compile and run recorded programs for every machine preset; compare with eager PyTorch.

Programs are compiled in this process, each for one random machine: compiling takes nearly all of the
time, and another program finds more than another machine for the same program. The emulator runs
programs of all presets and numbers of cores. It runs them in checked mode, which finds two cores
that use the same memory without a barrier between them. Without it, such a program is wrong only in
some runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

os.environ.update(
    {"FTM_CACHE_DIR": "off", "FTM_CHECKED": "1", "FTM_CORES": "2", "OMP_NUM_THREADS": "1"}
)
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.target import presets
from ftm_lazy import _C
from ftm_lazy.compile import compile_client
from ftm_lazy.compile.trace_importer import trace_of

__all__ = ["CORES", "DTYPES", "attempt"]

CORES = (1, 2, 3, 4, 8, 24)
DTYPES = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16)
"""What programs compute in; float32 more often than others."""
TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-3, torch.bfloat16: 1e-1}
"""Largest difference from the result in float64, as a part of its largest element."""

LEAST_SCALE = 0.1
"""What results are taken to be as large as at least: small ones may be differences of larger
numbers."""

Results = Sequence[torch.Tensor]


class _Compiler:
    """Replaces the compile client, which compiles in another process."""

    def __init__(self) -> None:
        self.machine = CompileOptions()
        self.failures: list[str] = []
        client = compile_client.client()
        client.get_or_compile = self.get_or_compile  # type: ignore[method-assign]
        # called last when the device is initialized; the compiler is not for several threads
        client.prepare = lambda: _C._set_compile_threads(1)  # type: ignore[method-assign]

    def begin(self, random: Random) -> None:
        """Chooses the machine of the next program."""
        machine, cores = random.choice(presets.NAMES), random.choice(CORES)
        self.machine = CompileOptions(machine=machine, cores=cores)
        self.failures.clear()

    def get_or_compile(
        self, recorded: _C._RecordedTrace, *_: object
    ) -> tuple[bytes, Sequence[int]] | str:
        """Compile as `CompileClient.get_or_compile` does."""
        try:
            return driver.compile(str(trace_of(recorded)), self.machine).image, ()
        except driver.CompileError as error:
            self.failures.append(f"{self.machine.machine}, {self.machine.cores} cores: {error}")
            return "the program does not compile"


_COMPILER = _Compiler()


def attempt(
    random: Random,
    dtype: torch.dtype,
    run: Callable[[str, torch.dtype], Results],
    compares: bool = True,
) -> str | None:
    """Run a program on ftm for a random machine; return what is wrong with it, or None, as for what
    eager PyTorch refuses.

    Args:
        random: Chooses the machine. dtype: What the program computes in. run: Runs the program on
        a device in a dtype, from the same numbers each time, and returns its results. compares:
        Whether results are compared. Rounding in bfloat16 may change which element is a maximum.
    """
    warnings.simplefilter("ignore")
    try:
        wanted, eager = run("cpu", torch.float64), run("cpu", dtype)
    except (RuntimeError, ValueError):
        return None  # such as batch norm of one element
    _COMPILER.begin(random)
    found = [result.cpu() for result in run("ftm", dtype)]
    if _COMPILER.failures:
        return "\n".join(_COMPILER.failures)
    machine = f"{_COMPILER.machine.machine}, {_COMPILER.machine.cores} cores"
    for number, (a, b, c) in enumerate(zip(wanted, eager, found, strict=True)):
        if b.shape != c.shape or b.dtype != c.dtype:
            return f"{machine}: result {number} is {c.dtype}{list(c.shape)}, on the CPU {b.dtype}{list(b.shape)}"
        difference = _difference(a, b, c, TOLERANCE[dtype]) if compares else ""
        if difference:
            return f"{machine}: result {number}, {c.dtype}{list(c.shape)}: {difference}"
    return None


def _difference(
    wanted: torch.Tensor, eager: torch.Tensor, found: torch.Tensor, tolerance: float
) -> str:
    """How a result differs from that in float64 by more than rounding explains; empty if it does
    not."""
    wanted, eager, found = (
        wanted.detach().double(),
        eager.detach().double(),
        found.detach().double(),
    )
    if not wanted.numel() or not bool(wanted.isfinite().all() & eager.isfinite().all()):
        return ""  # what overflows in one order of operations does not in another
    rounding = (eager - wanted).abs().max().item()
    limit = max(tolerance * max(wanted.abs().max().item(), LEAST_SCALE), 20 * rounding)
    worst = (found - wanted).abs().nan_to_num(nan=float("inf")).max().item()
    return (
        ""
        if worst <= limit
        else f"differs by {worst:.3g}, eager by {rounding:.3g}; the largest element is {wanted.abs().max().item():.3g}"
    )
