"""``ftm run`` of a model, with its inputs and outputs by name.

The model is a package, or assembly with its weights and manifest.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ftm_backend import assembler, runtime
from ftm_backend.cli_common import UserError, naming
from ftm_backend.dtypes import DTYPES
from ftm_backend.ir import asm
from ftm_backend.ir.asm.program import AsmProgram, BufferDirective
from ftm_backend.machine import Machine, MachineError, array_compare
from ftm_backend.runtime.load_asm_bundle import FORMAT, load_compiled
from ftm_backend.runtime.packaged_model import PackagedModel, TensorInfo
from ftm_backend.target.element_types import BY_TOKEN
from ftm_backend.tools.input_files import (
    check_fits_memory,
    read_array,
    read_arrays,
    read_assembly,
    read_object,
    read_text,
)
from ftm_backend.tools.run_results import (
    Result,
    fitting,
    missing_input,
    output_files,
    print_profile,
    report,
    write_outputs,
)


def run_package(path: Path, options: argparse.Namespace) -> int:
    """Run a packaged model with the command line of ``ftm run``; return the exit status."""
    if options.profile and not _profile(path, read_assembly(path), options):
        return 0
    with naming(path, runtime.PackageError, MachineError):
        model = runtime.load(
            path, cores=options.cores, checked=options.checked, instructions=options.instructions
        )
    return _run(path, model, {}, options)


def read_manifest(path: Path) -> dict[str, Any] | None:
    """Read the manifest that ``ftm compile`` wrote next to an assembly file, or return None."""
    file = path.with_suffix(".json")
    if path.suffix != ".lan" or not file.is_file():
        return None
    manifest = read_object(file)
    return manifest if manifest.get("format") == FORMAT else None


def run_compiled(path: Path, manifest: Mapping[str, Any], options: argparse.Namespace) -> int:
    """Run assembly with its weights and the command line of ``ftm run``; return the exit status."""
    text = read_text(path)
    with naming(path, asm.AsmError):
        program = asm.parse(text)
        image = assembler.assemble(program)
    if options.profile and not _profile(path, program, options):
        return 0
    arrays = read_arrays(_weights_file(path))
    with naming(path, runtime.PackageError, MachineError):
        machine = Machine(options.cores, options.checked, instructions=options.instructions)
        model = load_compiled(path, program, image, manifest, arrays, machine)
    buffers = {
        entry["buffer"]: entry["name"] for entry in manifest["buffers"] if entry["kind"] == "input"
    }
    return _run(path, model, buffers, options)


def _weights_file(path: Path) -> Path:
    found = [
        file
        for file in (path.with_suffix(".npz"), path.with_suffix(".safetensors"))
        if file.exists()
    ]
    if not found:
        raise UserError(
            f"{path} has a manifest but no weights, {path.with_suffix('.npz')}: "
            "compile the model again"
        )
    return found[0]


def _profile(path: Path, program: AsmProgram | str, options: argparse.Namespace) -> bool:
    """Print the profile; return whether the command line requests a run as well."""
    print_profile(path, program, options)
    return bool(options.inputs or options.random)


def _run(
    path: Path, model: PackagedModel, buffers: Mapping[str, str], options: argparse.Namespace
) -> int:
    """Run a model; ``buffers`` are alternative names of inputs for the command line."""
    if options.scalar:
        raise UserError(
            f"--scalar {options.scalar[0]}: a model has no scalar arguments; "
            "--seed sets its random numbers"
        )
    output_files([output.name for output in model.outputs], options.out)  # check before a long run
    model.seed(options.seed)
    given = _files(path, model, buffers, options)
    generator = np.random.default_rng(options.seed) if options.random else None
    arrays = [_array(path, tensor, given.get(tensor.name), generator) for tensor in model.inputs]
    with naming(path, runtime.PackageError, MachineError):
        outputs = model(*arrays)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    results = [
        Result(output.name, output.dtype, array)
        for output, array in zip(model.outputs, outputs, strict=True)
    ]
    write_outputs(results, options.out)
    return report(results, options.compare, options)


def _files(
    path: Path, model: PackagedModel, buffers: Mapping[str, str], options: argparse.Namespace
) -> dict[str, Path]:
    files = {}
    for word in options.inputs:
        name, equals, file = word.partition("=")
        if not equals:
            raise UserError(f"--in {word}: expected NAME=FILE.npy")
        known = [tensor.name for tensor in model.inputs]
        name = name if name in known else buffers.get(name, name)
        if name not in known:
            raise UserError(
                f"--in {name}: {path} has no such input; it has {', '.join(known) or 'none'}"
            )
        files[name] = Path(file)
    return files


def _array(
    model: Path, tensor: TensorInfo, path: Path | None, generator: np.random.Generator | None
) -> np.ndarray:
    dtype = np.dtype(DTYPES[tensor.dtype].numpy)
    if path is not None:
        array = read_array(path)
        return fitting(array, path, f"input {tensor.name}", dtype, tensor.shape, tensor.dtype)
    if generator is None:
        raise missing_input(model, tensor.name, tensor.dtype, tensor.shape)
    check_fits_memory(tensor.nbytes, f"input {tensor.name}")
    if tensor.dtype in BY_TOKEN and DTYPES[tensor.dtype].kind == "float":
        return array_compare.random_array(
            generator, BufferDirective("in", tensor.name, tensor.dtype, tensor.shape)
        )
    if dtype.kind == "c":
        parts = generator.standard_normal((*tensor.shape, 2))
        return parts.view(np.complex128)[..., 0].astype(dtype)
    return generator.integers(0, 2, tensor.shape).astype(dtype)
