"""`FTMCompiler`: compile a model to MLIR or assembly, run it, and validate each stage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch.export import ExportedProgram

from ftm_backend import optional_packages
from ftm_backend.executable import Executable
from ftm_backend.runtime.load_asm_bundle import FORMAT, WHOLE
from ftm_lazy.frontends.captured_model import capture_model, exported_arguments
from ftm_lazy.frontends.numpy_program import NumpyProgram
from ftm_lazy.frontends.package import check_machine, compile_trace, dtype_token
from ftm_lazy.frontends.validate_stages import ValidationReport, validate

Model: TypeAlias = torch.nn.Module | ExportedProgram | object


class FTMCompiler:
    """Compiler for modules, functions of tensors, exported programs and scripted modules.

    Each method takes a model and example arguments (optional for an `ExportedProgram`), and
    captures the model anew: its Python code runs once, on placeholders. All methods raise
    CaptureError if the model is not one program with static shapes, and CompileError if the program
    does not compile.

    Args:
        machine: Name of the machine preset for the assembly; None for that of FTM_MACHINE.

    Raises:
        ValueError: The machine is unknown.

    Example:
        >>> compiler = ftm_lazy.FTMCompiler("m7032")
        >>> compiler.compile_to_lasm(model, torch.zeros(8, 16), output_path="model.lan")
    """

    def __init__(self, machine: str | None = None) -> None:
        check_machine(machine)
        self._machine = machine

    def compile_to_mlir(
        self, model: Model, *inputs: object, dialect: str = "torch", **keywords: object
    ) -> str:
        """Return the model's program as MLIR text.

        The weights are the first arguments of ``main``, before the inputs.

        Args:
            model: The model.
            *inputs: Example arguments.
            dialect: "torch", "linalg" or "ftm" for a stage of this compiler; "tosa" or "stablehlo"
                for torch-mlir's conversion of the torch dialect.
            **keywords: Example keyword arguments.

        Raises:
            DialectError: The dialect is unknown, or the conversion does not support an op.
        """
        from ftm_backend.torch_mlir import export_dialects

        return export_dialects.emit(self._program(model, inputs, keywords).trace, dialect)

    def compile_to_lasm(
        self,
        model: Model,
        *inputs: object,
        output_path: str | Path = "kernel.lan",
        weights: str = "npz",
        **keywords: object,
    ) -> Path:
        """Write the model's assembly, weights and manifest.

        Args:
            model: The model.
            *inputs: Example arguments.
            output_path: Path of the assembly, e.g. ``kernel.lan``. The weights go to
                ``kernel.npz`` or ``kernel.safetensors``, the manifest to ``kernel.json``.
            weights: Format of the weights, "npz" or "safetensors" (needs that package).
            **keywords: Example keyword arguments.

        Returns:
            The path of the assembly.

        Raises:
            OSError: A file cannot be written.
            ValueError: The format is unknown, or safetensors is not installed.
        """
        if weights not in ("npz", "safetensors"):
            raise ValueError(f"weights are written as npz or safetensors, not {weights!r}")
        program = self._program(model, inputs, keywords)
        executable = compile_trace(program.trace, self._machine)
        path = Path(output_path)
        path.write_text(executable.named_asm(program.trace))
        buffers = dict(zip(_buffers(executable.asm, "in"), _weight_arrays(program), strict=True))
        arrays = {name: array for name, array in buffers.items() if array is not None}
        arrays |= {f"{WHOLE}{name}": content for name, content in _viewed_weights(program).items()}
        _write_weights(path, arrays, weights)
        path.with_suffix(".json").write_text(
            json.dumps(_manifest(program, executable), indent=1) + "\n"
        )
        return path

    def jit_run(self, model: Model, *inputs: object, **keywords: object) -> object:
        """Run the model's linalg stage on the CPU with MLIR's ExecutionEngine.

        It uses upstream's bufferization and LLVM, and neither our midend nor the machine.

        Args:
            model: The model.
            *inputs: Arguments.
            **keywords: Keyword arguments.

        Returns:
            CPU tensors in the nesting of the model's result.
        """
        from ftm_lazy.frontends.validate_stages import run_linalg

        inputs, keywords = _arguments(model, inputs, keywords)
        captured = capture_model(model, inputs, keywords)
        return run_linalg(NumpyProgram(captured), captured.arguments(*inputs, **keywords))

    def run(self, model: Model, *inputs: object, **keywords: object) -> object:
        """Run the model's assembly on the machine.

        Args:
            model: The model.
            *inputs: Arguments.
            **keywords: Keyword arguments.

        Returns:
            CPU tensors in the nesting of the model's result.
        """
        inputs, keywords = _arguments(model, inputs, keywords)
        return capture_model(model, inputs, keywords).run(*inputs, **keywords)

    def validate(
        self,
        model: Model,
        *inputs: object,
        rtol: float = 1e-4,
        atol: float = 1e-5,
        **keywords: object,
    ) -> ValidationReport:
        """Compare each compiler stage with eager PyTorch, and print the report.

        The stages are the trace, the torch dialect, linalg, and the assembly in checked mode.

        Args:
            model: The model.
            *inputs: Arguments.
            rtol: Relative tolerance for float32, as of `torch.testing.assert_close`.
            atol: Absolute tolerance for float32.
            **keywords: Keyword arguments.

        Returns:
            The report.

        Raises:
            ValueError: The model draws random numbers, which differ between devices.
        """
        inputs, keywords = _arguments(model, inputs, keywords)
        captured = capture_model(model, inputs, keywords)
        report = validate(model, captured, inputs, keywords, rtol, atol)
        print(report)
        return report

    @staticmethod
    def _program(
        model: Model, inputs: Sequence[object], keywords: dict[str, object]
    ) -> NumpyProgram:
        return NumpyProgram(capture_model(model, inputs, keywords))


def _arguments(
    model: Model, inputs: Sequence[object], keywords: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments; without any, those of an exported program's export."""
    return (
        exported_arguments(model, inputs, keywords)
        if isinstance(model, ExportedProgram)
        else (tuple(inputs), keywords)
    )


def _buffers(asm: str, kind: str) -> list[str]:
    """Return the names that an assembly declares with ``@in``, ``@out`` or ``@scalar``."""
    return [
        line.split()[1].rstrip(",") for line in asm.splitlines() if line.startswith(f"@{kind} ")
    ]


def _weight_arrays(program: NumpyProgram) -> list[np.ndarray | None]:
    """Return the content of each parameter of the program; None for an input of the model."""
    zeros = [torch.zeros(t.shape, dtype=t.dtype) for t in program.model.inputs.values()]
    arrays = program.arrays(zeros)
    return [
        array if source >= 0 else None
        for array, (source, _) in zip(arrays, program.parameters, strict=True)
    ]


def _viewed_weights(program: NumpyProgram) -> dict[str, np.ndarray]:
    """Return the bytes of the weights that outputs of the model are views of, by name."""
    weights = list(program.weights.items())
    return dict(weights[index] for _, kind, index, *_ in program.outputs if kind == "weight")


def _write_weights(path: Path, arrays: dict[str, np.ndarray], kind: str) -> None:
    if kind == "npz":
        # mypy takes the keywords for savez's own argument `allow_pickle`
        np.savez(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        return
    with optional_packages.needed("writing weights as safetensors"):
        from safetensors.numpy import save_file
    save_file(arrays, path.with_suffix(".safetensors"))


def _manifest(program: NumpyProgram, executable: Executable) -> dict[str, object]:
    """Describe each buffer of the assembly; the format is that of `load_asm_bundle`."""
    asm = executable.asm
    names, inputs = list(program.weights), program.inputs
    parameters = []
    for buffer, (source, start) in zip(_buffers(asm, "in"), program.parameters, strict=True):
        kind, name = ("weight", names[source]) if source >= 0 else ("input", inputs[-1 - source])
        parameters.append({"buffer": buffer, "kind": kind, "name": name, "byte": start})
    results = _buffers(asm, "out")
    outputs = [
        {
            "name": name,
            "kind": kind,
            "buffer": results[index] if kind == "result" else None,
            "of": None if kind == "result" else (inputs if kind == "input" else names)[index],
            "dtype": dtype,
            "sizes": sizes,
            "strides": strides,
            "offset": offset,
        }
        for name, kind, index, dtype, sizes, strides, offset in program.outputs
    ]
    replaced = [
        {
            "buffer": results[i],
            "kind": "weight" if target >= 0 else "input",
            "name": names[target] if target >= 0 else inputs[-1 - target],
        }
        for i, target in enumerate(program.results)
        if target is not None
    ]
    model = program.model
    return {
        "format": FORMAT,
        "machine": executable.machine,
        "inputs": [
            {"name": n, "dtype": dtype_token(t.dtype), "shape": list(t.shape)}
            for n, t in model.inputs.items()
        ],
        "buffers": parameters,
        "scalars": dict(zip(_buffers(asm, "scalar"), program.draws, strict=True)),
        "outputs": outputs,
        "replaced": replaced,
    }
