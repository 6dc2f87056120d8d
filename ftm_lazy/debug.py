"""Looks into the compiler: the text of a pending computation at each stage, and its modelled
cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ftm_lazy import _C, settings
from ftm_lazy.compile import compile_client
from ftm_lazy.device.device_name import NAME

if TYPE_CHECKING:
    from ftm_backend.perf_model.cycle_model import CycleProfile

__all__ = ["STAGES", "profile", "text"]

STAGES: tuple[str, ...]
"""Names of the compiler's stages for the current machine, from the trace to the assembly."""


def __getattr__(name: str) -> tuple[str, ...]:
    """Compute `STAGES` on first use: it loads the compiler, which only its worker process needs
    otherwise."""
    if name != "STAGES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ftm_backend import driver
    from ftm_backend.target import presets

    values = settings.current()
    machine = replace(presets.load(values.preset), cores=values.cores)
    return tuple(stage.name for stage in driver.stages(machine) if stage.name != "image")


def text(tensors: torch.Tensor | Sequence[torch.Tensor], stage: str) -> str:
    """The program that would compute `tensors`, as text; runs nothing.

    Args:
        tensors: results of recorded operations that have not run yet.
        stage: one of `STAGES`.

    Raises ValueError for another stage or a tensor on another device, CompileError if it does not
    compile.
    """
    trace = _trace(tensors)
    if stage == "trace":
        return trace
    texts = compile_client.bridge().texts(trace)
    if stage not in texts:
        raise ValueError(f"there is no stage {stage!r}; the stages are {', '.join(texts)}")
    return texts[stage]


def profile(tensors: torch.Tensor | Sequence[torch.Tensor]) -> CycleProfile:
    """The modelled cost of the program that would compute `tensors`, by kernel; runs nothing.

    Returns:
        cycles, DMA bytes and the use of the machine, whole and for each kernel; `table()` shows it.
        The machine is that of FTM_MACHINE with FTM_CORES; nothing of it is measured.

    Raises ValueError for a tensor on another device, CompileError if the program does not compile.
    """
    from ftm_backend.perf_model import cycle_model

    values = settings.current()
    return cycle_model.model(text(tensors, "asm"), machine=values.preset, cores=values.cores)


def _trace(tensors: torch.Tensor | Sequence[torch.Tensor]) -> str:
    listed = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    for tensor in listed:
        if tensor.device.type != NAME:
            raise ValueError(f"expected tensors on {NAME}, but got one on {tensor.device}")
    return _C._trace_text(listed)
