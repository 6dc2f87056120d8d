"""``ftm run program.lan``: runs an assembly file on arrays from files or on random ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ftm_backend import assembler, safe_names
from ftm_backend.cli_common import UserError, naming
from ftm_backend.ir import asm
from ftm_backend.ir.asm.program import AsmProgram, BufferDirective, ScalarArgument
from ftm_backend.machine import Machine, MachineError, array_compare
from ftm_backend.target.element_types import BY_TOKEN
from ftm_backend.tools.input_files import check_fits_memory, read_array, read_object, read_text
from ftm_backend.tools.run_results import (
    Result,
    fitting,
    missing_input,
    output_files,
    print_profile,
    report,
    write_outputs,
)

_INT64 = range(-(2**63), 2**63)


def run_assembly(path: Path, folder: Path | None, options: argparse.Namespace) -> int:
    """Run an assembly file and return the exit status.

    Args:
        path: The assembly file.
        folder: Folder of ``scalars.json`` and of NAME.npy for inputs and expected outputs, or None.
        options: The command line of ``ftm run``.
    """
    text = read_text(path)
    with naming(path, asm.AsmError):
        program = asm.parse(text)
        image = assembler.assemble(program)
    if options.profile:
        print_profile(path, program, options)
        if not (options.inputs or options.random or folder):
            return 0
    data = Data(path, program, folder, options)
    outputs = program.buffers("out")
    output_files([buffer.name for buffer in outputs], options.out)  # check names before a long run
    inputs, scalars = data.inputs(), data.scalars()
    for buffer in outputs:
        check_fits_memory(
            buffer.elements * BY_TOKEN[buffer.dtype].array.itemsize, f"output {buffer.name}"
        )
    with naming(path, MachineError, ValueError):
        machine = Machine(
            cores=options.cores, checked=options.checked, instructions=options.instructions
        )
        arrays = machine.load(image).run(inputs, scalars)
    results = [
        Result(buffer.name, buffer.dtype, array)
        for buffer, array in zip(outputs, arrays, strict=True)
    ]
    write_outputs(results, options.out)
    return report(results, options.compare or folder, options)


def _named(words: list[str], flag: str, known: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{flag} {word}: expected NAME=VALUE")
        if name not in known:
            raise UserError(
                f"{flag} {word}: the program has no {name!r}; it has {', '.join(known) or 'none'}"
            )
        pairs[name] = value
    return pairs


class Data:
    """Inputs and scalars of a run: from the command line, else the folder, else random."""

    def __init__(
        self, path: Path, program: AsmProgram, folder: Path | None, options: argparse.Namespace
    ) -> None:
        self.path, self.program, self.folder = path, program, folder
        self.files = _named(options.inputs, "--in", [b.name for b in program.buffers("in")])
        self.values = _named(options.scalar, "--scalar", [s.name for s in program.scalars()])
        self.generator = np.random.default_rng(options.seed) if options.random else None

    def inputs(self) -> list[np.ndarray]:
        """Return one array per input, of its type and shape."""
        return [self._input(buffer) for buffer in self.program.buffers("in")]

    def _input(self, buffer: BufferDirective) -> np.ndarray:
        if buffer.name in self.files:
            return _load(Path(self.files[buffer.name]), buffer)
        file = (
            safe_names.file_in(self.folder, buffer.name, ".npy")
            if self.folder is not None
            else None
        )
        if file is not None and file.exists():
            return _load(file, buffer)
        if self.generator is not None:
            check_fits_memory(
                buffer.elements * BY_TOKEN[buffer.dtype].array.itemsize, f"input {buffer.name}"
            )
            return array_compare.random_array(self.generator, buffer)
        raise missing_input(self.path, buffer.name, buffer.dtype, buffer.shape)

    def scalars(self) -> list[float | int]:
        """Return one number per scalar argument."""
        values: dict[str, object] = {}
        if self.folder is not None and (self.folder / "scalars.json").exists():
            values = read_object(self.folder / "scalars.json")
        values |= self.values
        return [self._scalar(scalar, values.get(scalar.name)) for scalar in self.program.scalars()]

    def _scalar(self, scalar: ScalarArgument, value: Any) -> float | int:
        if value is None:
            if self.generator is None:
                raise UserError(
                    f"{self.path}: no value for scalar {scalar.name} ({scalar.dtype}): "
                    f"give --scalar {scalar.name}=VALUE"
                )
            value = (
                self.generator.uniform(0.1, 1.0)
                if scalar.dtype == "f64"
                else self.generator.integers(0, 8)
            )
        try:
            number = float(value) if scalar.dtype == "f64" else int(value)
        except (TypeError, ValueError, OverflowError):
            shown = (
                repr(value)
                if len(str(value)) < 100
                else f"{str(value)[:40]}... ({len(str(value))} characters)"
            )
            raise UserError(f"scalar {scalar.name} is {scalar.dtype}, found {shown}") from None
        if scalar.dtype == "i64" and number not in _INT64:
            raise UserError(f"scalar {scalar.name} is i64, and {number} does not fit in 64 bits")
        return number


def _load(path: Path, buffer: BufferDirective) -> np.ndarray:
    wanted = BY_TOKEN[buffer.dtype].array
    return fitting(
        read_array(path), path, f"input {buffer.name}", wanted, buffer.shape, buffer.dtype
    )
