"""Packages: an exported program as one file that runs without PyTorch (`ftm_backend.runtime`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram

from ftm_backend.executable import Executable
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.runtime import packaged_model as runtime
from ftm_backend.target import presets
from ftm_lazy import settings
from ftm_lazy.compile import compile_client
from ftm_lazy.frontends.array_program import DTYPES_OF_TORCH, ArrayProgram
from ftm_lazy.frontends.captured_model import CapturedModel, capture_model

__all__ = ["check_machine", "compiled", "package", "token"]


def package(
    model: ExportedProgram | CapturedModel, path: str | Path, *, machine: str | None = None
) -> None:
    """Write a model as one file: its program, weights, and what it takes and gives, with
    checksums.

    Args:
        model: what `torch.export.export` gives, or `capture_model`.
        path: of the file; it appears whole or not at all.
        machine: the preset to compile for; that of FTM_MACHINE if None.

    Raises:
        CaptureError: the model is no single program of static shapes.
        CompileError: the program does not compile.
        OSError: the file cannot be written.
        TypeError: the model was not exported.
        ValueError: there is no such machine.
    """
    if not isinstance(model, (ExportedProgram, CapturedModel)):
        raise TypeError(
            f"expected what torch.export.export gives, found {type(model).__name__}: package(torch.export.export(model, inputs), path)"
        )
    captured = model if isinstance(model, CapturedModel) else capture_model(model, ())
    program = ArrayProgram(captured)
    executable = compiled(program.trace, machine)
    manifest = runtime.Manifest(
        machine=executable.machine,
        inputs=tuple(
            runtime.TensorInfo(name, token(t.dtype), tuple(t.shape))
            for name, t in captured.inputs.items()
        ),
        outputs=tuple(
            runtime.OutputInfo(name, kind, index, dtype, tuple(sizes), tuple(strides), offset)
            for name, kind, index, dtype, sizes, strides, offset in program.outputs
        ),
        weights=tuple(program.weights),
        draws=tuple(program.draws),
        draws_made=program.draws_made,
    )
    runtime.save(
        path,
        manifest,
        executable.image,
        executable.asm,
        list(program.weights.values()),
        program.parameters,
        [runtime.KEEPS if target is None else target for target in program.results],
    )


def compiled(trace: Trace, machine: str | None = None) -> Executable:
    """Return the executable of a trace, through the caches; CompileError where it does not compile."""
    if machine is None:
        return compile_client.client().executable(str(trace))
    check_machine(machine)
    client = compile_client.CompileClient(replace(settings.current(), machine=machine))
    try:
        return client.executable(str(trace))
    finally:
        client.close()


def check_machine(name: str | None) -> None:
    """ValueError for what is no preset's name, nor None."""
    if name is not None and name not in presets.NAMES:
        raise ValueError(f"there is no machine {name!r}: use one of {', '.join(presets.NAMES)}")


def token(dtype: Any) -> str:
    """Return the dtype token of a torch dtype."""
    return next(name for name, known in DTYPES_OF_TORCH.items() if known == dtype)
