"""Inspection of pending computations: their text at each compiler stage and their modelled cost."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ftm_backend import optional_packages
from ftm_backend.ir.trace.trace import Trace
from ftm_lazy import _C, settings
from ftm_lazy.compile import compile_client
from ftm_lazy.compile.trace_importer import trace_of
from ftm_lazy.device.device_name import NAME
from ftm_lazy.notebook_display import NotebookText

if TYPE_CHECKING:
    from ftm_backend.perf_model.cycle_model import CycleProfile

__all__ = ["STAGES", "profile", "text"]

STAGES: tuple[str, ...]
"""Names of the compiler's stages for the current machine, from the trace to the assembly."""


def __getattr__(name: str) -> tuple[str, ...]:
    """Load `STAGES` on first access: it imports the compiler, which this process rarely needs."""
    if name != "STAGES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ftm_backend import compiler_stages
    from ftm_backend.target import presets

    values = settings.current()
    machine = replace(presets.load(values.preset), cores=values.cores)
    return tuple(stage.name for stage in compiler_stages.stages(machine) if stage.name != "image")


def text(tensors: torch.Tensor | Sequence[torch.Tensor], stage: str) -> str:
    """Return the text of the program that computes `tensors` at one compiler stage.

    Nothing runs, and the tensors stay pending.

    Args:
        tensors: Results of recorded operations that have not run yet.
        stage: One of `STAGES`.

    Returns:
        The program's text at that stage; a notebook shows it as it is.

    Raises:
        ValueError: `stage` is unknown, or a tensor is on another device.
        CompileError: The program does not compile.
        MissingPackageError: Stage "torch" needs MLIR's bindings, which are not installed.

    Example:
        >>> print(ftm_lazy.debug.text(x @ w, "linalg"))
    """
    trace = _trace(tensors)
    if stage == "trace":
        return NotebookText(str(trace))
    texts = compile_client.client().texts(trace)
    if stage not in texts:
        raise ValueError(f"there is no stage {stage!r}; the stages are {', '.join(texts)}")
    if not texts[stage]:
        with optional_packages.needed(f"the text of stage {stage!r}"):
            importlib.import_module("torch_mlir")
    return NotebookText(texts[stage])


def profile(tensors: torch.Tensor | Sequence[torch.Tensor]) -> CycleProfile:
    """Return the modelled cost of the program that computes `tensors`.

    Nothing runs: all figures come from the cycle model of FTM_MACHINE with FTM_CORES cores.

    Args:
        tensors: Results of recorded operations that have not run yet.

    Returns:
        Cycles, DMA bytes and utilization, in total and for each kernel. `table()` formats them.

    Raises:
        ValueError: A tensor is on another device.
        CompileError: The program does not compile.

    Example:
        >>> print(ftm_lazy.debug.profile(x @ w).table())
    """
    from ftm_backend.perf_model import cycle_model

    values = settings.current()
    return cycle_model.model(text(tensors, "asm"), machine=values.preset, cores=values.cores)


def _trace(tensors: torch.Tensor | Sequence[torch.Tensor]) -> Trace:
    listed = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    for tensor in listed:
        if tensor.device.type != NAME:
            raise ValueError(f"expected tensors on {NAME}, but got one on {tensor.device}")
    return trace_of(_C._trace(listed))
