"""`FTMCompiler`: from a model to MLIR, to assembly, and to results, by every way there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.export import ExportedProgram

from ftm_backend.executable import Executable
from ftm_backend.runtime.asm_bundle import FORMAT, WHOLE
from ftm_lazy.frontends.array_program import ArrayProgram
from ftm_lazy.frontends.captured_model import capture_model, exported_arguments
from ftm_lazy.frontends.package import check_machine, compiled, token
from ftm_lazy.frontends.validate import ValidationReport, validate

__all__ = ["FTMCompiler"]

Model: TypeAlias = torch.nn.Module | ExportedProgram | Any


class FTMCompiler:
    """Compiles an `nn.Module`, a function of tensors, an `ExportedProgram` or a
    `torch.jit.ScriptModule`.

    Every method takes the model and example inputs (none for an `ExportedProgram`, which has its
    own), and captures the model anew: its Python runs once, on placeholders. All raise
    `CaptureError` for a model that is no single program of static shapes, and `CompileError` for
    one that does not compile.

    Args:
        machine: the preset that assembly is for; that of FTM_MACHINE if None.

    Raises ValueError for an unknown machine.
    """

    def __init__(self, machine: str | None = None) -> None:
        check_machine(machine)
        self._machine = machine

    def compile_to_mlir(
        self, model: Model, *inputs: Any, dialect: str = "torch", **keywords: Any
    ) -> str:
        """Return the model's program as MLIR text: weights are arguments of ``main``, before the inputs.

        Args:
            dialect: ``torch``, ``linalg`` and ``ftm`` are stages of this compiler; ``tosa`` and
                ``stablehlo`` come from torch-mlir's conversions of the torch dialect.

        Raises DialectError for an unknown dialect, and names the op that a conversion does not
        take.
        """
        from ftm_backend.torch_mlir import export_dialects

        return export_dialects.emit(self._program(model, inputs, keywords).trace, dialect)

    def compile_to_lasm(
        self,
        model: Model,
        *inputs: Any,
        output_path: str | Path = "kernel.lan",
        weights: str = "npz",
        **keywords: Any,
    ) -> Path:
        """Write the model's assembly, and beside it its weights and a manifest.

        Args:
            output_path: of the assembly; ``kernel.npz`` (or ``.safetensors``) and ``kernel.json``
                go with ``kernel.lan``.
            weights: ``npz`` or ``safetensors`` (which needs the package of that name).

        Returns:
            The path of the assembly.

        Raises OSError where it cannot be written.
        """
        if weights not in ("npz", "safetensors"):
            raise ValueError(f"weights are written as npz or safetensors, not {weights!r}")
        program = self._program(model, inputs, keywords)
        executable = compiled(program.trace, self._machine)
        path = Path(output_path)
        path.write_text(executable.asm)
        arrays = dict(zip(_buffers(executable.asm, "in"), _held(program), strict=True))
        whole = {f"{WHOLE}{name}": content for name, content in _returned(program).items()}
        _write_weights(
            path, {name: a for name, a in arrays.items() if a is not None} | whole, weights
        )
        path.with_suffix(".json").write_text(
            json.dumps(_manifest(program, executable), indent=1) + "\n"
        )
        return path

    def jit_run(self, model: Model, *inputs: Any, **keywords: Any) -> Any:
        """Run the linalg stage through MLIR's ExecutionEngine: upstream's bufferization and LLVM,
        nothing of our midend and machine. Results as the model nests them."""
        from ftm_lazy.frontends.validate import run_linalg

        inputs, keywords = _given(model, inputs, keywords)
        captured = capture_model(model, inputs, keywords)
        return run_linalg(ArrayProgram(captured), captured.arguments(*inputs, **keywords))

    def run(self, model: Model, *inputs: Any, **keywords: Any) -> Any:
        """Run our assembly on the machine.  Results as the model nests them, on the CPU."""
        inputs, keywords = _given(model, inputs, keywords)
        return capture_model(model, inputs, keywords).run(*inputs, **keywords)

    def validate(
        self, model: Model, *inputs: Any, rtol: float = 1e-4, atol: float = 1e-5, **keywords: Any
    ) -> ValidationReport:
        """Run the model eagerly, and its program at each boundary (trace, torch dialect, linalg,
        assembly in checked mode); prints where and by how much they part."""
        inputs, keywords = _given(model, inputs, keywords)
        captured = capture_model(model, inputs, keywords)
        report = validate(model, captured, inputs, keywords, rtol, atol)
        print(report)
        return report

    @staticmethod
    def _program(model: Model, inputs: Any, keywords: dict[str, Any]) -> ArrayProgram:
        return ArrayProgram(capture_model(model, inputs, keywords))


def _given(model: Model, inputs: Any, keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the arguments, or those that an exported program was exported with."""
    return (
        exported_arguments(model, inputs, keywords)
        if isinstance(model, ExportedProgram)
        else (inputs, keywords)
    )


def _buffers(asm: str, kind: str) -> list[str]:
    """Return the names of a program's inputs or outputs, as its assembly declares them."""
    return [
        line.split()[1].rstrip(",") for line in asm.splitlines() if line.startswith(f"@{kind} ")
    ]


def _held(program: ArrayProgram) -> list[np.ndarray | None]:
    """For each input of the program its content, if it is a weight."""
    zeros = [torch.zeros(t.shape, dtype=t.dtype) for t in program.model.inputs.values()]
    arrays = program.arrays(zeros)
    return [
        array if source >= 0 else None
        for array, (source, _) in zip(arrays, program.parameters, strict=True)
    ]


def _returned(program: ArrayProgram) -> dict[str, np.ndarray]:
    """Return the bytes of the weights that outputs of the model are views of."""
    weights = list(program.weights.items())
    return dict(weights[index] for _, kind, index, *_ in program.outputs if kind == "weight")


def _write_weights(path: Path, arrays: dict[str, np.ndarray], kind: str) -> None:
    if kind == "npz":
        np.savez(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]  # names of arrays, not of its own argument
        return
    try:
        from safetensors.numpy import save_file
    except ModuleNotFoundError as error:
        raise ValueError(
            "weights as safetensors need the package safetensors: install it, or write npz"
        ) from error
    save_file(arrays, path.with_suffix(".safetensors"))


def _manifest(program: ArrayProgram, executable: Executable) -> dict[str, Any]:
    """What each buffer of the assembly is, as `ftm_backend.runtime.asm_bundle` describes it."""
    asm = executable.asm
    names, inputs = list(program.weights), program.inputs
    taken = []
    for buffer, (source, start) in zip(_buffers(asm, "in"), program.parameters, strict=True):
        kind, name = ("weight", names[source]) if source >= 0 else ("input", inputs[-1 - source])
        taken.append({"buffer": buffer, "kind": kind, "name": name, "byte": start})
    results = _buffers(asm, "out")
    given = [
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
            {"name": n, "dtype": token(t.dtype), "shape": list(t.shape)}
            for n, t in model.inputs.items()
        ],
        "buffers": taken,
        "scalars": dict(zip(_buffers(asm, "scalar"), program.draws, strict=True)),
        "outputs": given,
        "replaced": replaced,
    }
