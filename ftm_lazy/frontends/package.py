"""Packaging of an exported program as one file that runs without PyTorch.

`ftm_backend.runtime` loads and runs packages.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch.export import ExportedProgram

from ftm_backend.executable import Executable
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.runtime import packaged_model as runtime
from ftm_backend.target import presets
from ftm_lazy import settings
from ftm_lazy.compile import compile_client
from ftm_lazy.frontends.captured_model import CapturedModel, capture_model
from ftm_lazy.frontends.numpy_program import DTYPES_OF_TORCH, NumpyProgram


def package(
    model: ExportedProgram | CapturedModel, path: str | Path, *, machine: str | None = None
) -> None:
    """Write a model as one file that runs without PyTorch.

    The file has the program, the weights, and the names, dtypes and shapes of inputs and outputs,
    with checksums.

    Args:
        model: The result of `torch.export.export` or `capture_model`.
        path: Path of the file, which is written atomically.
        machine: Name of the machine preset to compile for; None for that of FTM_MACHINE.

    Raises:
        CaptureError: The model is not one program with static shapes.
        CompileError: The program does not compile.
        OSError: The file cannot be written.
        TypeError: The model was not exported.
        ValueError: The machine is unknown.

    Example:
        >>> exported = torch.export.export(model, (torch.zeros(8, 16),))
        >>> ftm_lazy.package(exported, "model.ftm")
        >>> ftm_backend.runtime.load("model.ftm")(numpy.zeros((8, 16), numpy.float32))
    """
    if not isinstance(model, (ExportedProgram, CapturedModel)):
        raise TypeError(
            f"expected an ExportedProgram, found {type(model).__name__}:"
            " write package(torch.export.export(model, inputs), path)"
        )
    captured = model if isinstance(model, CapturedModel) else capture_model(model, ())
    program = NumpyProgram(captured)
    executable = compile_trace(program.trace, machine)
    manifest = runtime.Manifest(
        machine=executable.machine,
        inputs=tuple(
            runtime.TensorInfo(name, dtype_token(t.dtype), tuple(t.shape))
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


def compile_trace(trace: Trace, machine: str | None = None) -> Executable:
    """Compile a trace, or load it from the disk cache.

    Args:
        trace: The trace.
        machine: Name of the machine preset; None for that of FTM_MACHINE.

    Raises:
        CompileError: The trace does not compile.
        ValueError: The machine is unknown.
    """
    if machine is None:
        return compile_client.client().executable(trace)
    check_machine(machine)
    client = compile_client.CompileClient(replace(settings.current(), machine=machine))
    try:
        return client.executable(trace)
    finally:
        client.close()


def check_machine(name: str | None) -> None:
    """Raise UnknownPreset if `name` is neither None nor the name of a machine preset."""
    if name is not None:
        presets.load(name)


def dtype_token(dtype: object) -> str:
    """Return the dtype token of a torch dtype, e.g. "f32"."""
    return next(name for name, known in DTYPES_OF_TORCH.items() if known == dtype)
