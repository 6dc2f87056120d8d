"""The checks: each executes something on a machine and compares the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import resources

import numpy as np

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.conformance.op_cases import traces
from ftm_backend.conformance.outcome import CheckOutcome
from ftm_backend.docgen import example_programs
from ftm_backend.dtypes import DTYPES
from ftm_backend.frontend import Trace
from ftm_backend.machine import Machine, MachineError, array_compare
from ftm_backend.target.element_types import TYPES
from ftm_backend.target.instruction import InstructionDef
from ftm_backend.target.instruction_table import INSTRUCTIONS
from ftm_backend.torch_mlir import execution_engine

# Others: 1e-4. Machines differ in the order of summation and in elementary functions.
_TOLERANCE = {"f16": 2e-3, "bf16": 2e-2}
_RUNS = 5  # runs of a model; the fastest one counts


def run_all(machine: Machine, preset: str, only: str = "") -> list[CheckOutcome]:
    """Run all checks on an open machine.

    Args:
        machine: The machine.
        preset: Preset that programs are compiled for.
        only: Run checks whose names contain this; "" for all.
    """
    return [check() for name, check in _checks(machine, preset) if only in name]


def _checks(machine: Machine, preset: str) -> Iterator[tuple[str, Callable[[], CheckOutcome]]]:
    for row in INSTRUCTIONS:
        if row.example is not None:
            name = f"instruction {row.name}"
            yield name, partial(_instruction, machine, name, row)
    for kind, programs in (("op", traces()), ("model", models())):
        for label, text in programs.items():
            name = f"{kind} {label}"
            yield name, partial(_program, machine, preset, name, text)


def models() -> dict[str, str]:
    """Return the traces of models by name (see ``tests/frontends/conformance_models.py``)."""
    files = [
        f
        for f in resources.files("ftm_backend.conformance").joinpath("models").iterdir()
        if f.name.endswith(".trace")
    ]
    return {
        file.name.removesuffix(".trace"): file.read_text()
        for file in sorted(files, key=lambda f: f.name)
    }


def _instruction(machine: Machine, name: str, row: InstructionDef) -> CheckOutcome:
    case = example_programs.case(row)
    try:
        found = machine.load(assembler.assemble(case.text)).run(case.inputs, case.scalars)
    except MachineError as error:
        return CheckOutcome(name, False, str(error))
    for array, expected in zip(found, case.outputs, strict=True):
        token = next(t.token for t in TYPES if t.array == expected.dtype)
        difference = array_compare.difference(array, expected, token, 1e-5, 1e-7)
        if difference:
            return CheckOutcome(name, False, difference)
    return CheckOutcome(name, True)


def _program(machine: Machine, preset: str, name: str, text: str) -> CheckOutcome:
    trace = Trace.parse(text)
    generator = np.random.default_rng(0)
    inputs = [_array(generator, type_.dtype, type_.shape) for type_ in trace.params]
    scalars = [1 if kind == "i64" else 0.5 for kind in trace.scalars]
    expected = execution_engine.run_text(
        str(driver.run_from("trace", text, "linalg")), inputs, scalars
    )
    executable = driver.compile(text, CompileOptions(machine=preset))
    try:
        program = machine.load(executable.image)
        seconds = []
        for _ in range(_RUNS if name.startswith("model") else 1):
            start = time.perf_counter()
            found = program.run(inputs, scalars)
            seconds.append(time.perf_counter() - start)
    except MachineError as error:
        return CheckOutcome(name, False, str(error))
    types = trace.types()
    for index, array, reference in zip(trace.results, found, expected, strict=True):
        type_ = types[index]
        assert type_ is not None
        dtype = type_.dtype
        tolerance = _TOLERANCE.get(dtype, 1e-4)
        difference = array_compare.difference(
            array, reference.reshape(array.shape), dtype, tolerance, tolerance
        )
        if difference:
            return CheckOutcome(name, False, difference, min(seconds))
    return CheckOutcome(name, True, seconds=min(seconds))


def _array(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return floats between -2 and 2, or small indices for other dtypes."""
    facts = DTYPES[dtype]
    if facts.kind != "float":
        return generator.integers(0, 2, shape).astype(facts.numpy)
    values = generator.uniform(-2, 2, shape)
    if dtype == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(facts.numpy)
