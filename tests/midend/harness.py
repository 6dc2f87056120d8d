"""Runs linalg text through the midend, the emission and the emulator, and compares with
``reference``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ftm_backend import assembler, codegen, mlir
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend import reference

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 1e-5, "f64": 1e-12, "f16": 2e-3, "bf16": 2e-2}
"""Of sums of a few elements, by dtype, relative and absolute."""


def tune(monkeypatch: pytest.MonkeyPatch, **choices: str) -> None:
    """Makes these choices instead of the cost model, as ``FTM_TUNE`` does; ``_`` stands for ``-``."""
    named = {name.replace("_", "-"): choice for name, choice in choices.items()}
    monkeypatch.setattr(MachineParameters, "choice", lambda self, name: named.get(name, ""))


def stages(text: str, machine: presets.MachineParameters | None = None) -> dict[str, str]:
    """The text after each pass, by the pass's name, and ``asm``."""
    machine = machine or presets.load("host")
    value: Any = pipeline.LINALG.read(text, machine)
    texts: dict[str, str] = {}
    for step in (*pipeline.pipeline(machine), *codegen.pipeline.pipeline(machine)):
        value = pipeline.apply(step, value, machine)
        texts[step.name] = step.ir.after.write(value, step.name)
    texts["asm"] = str(codegen.emit(value, machine))
    return texts


def run(
    text: str,
    inputs: Sequence[np.ndarray],
    scalars: Sequence[Any] = (),
    cores: int = 2,
    checked: bool = True,
    machine: presets.MachineParameters | None = None,
) -> list[np.ndarray]:
    """Results of the compiled program on the emulator."""
    machine = replace(machine or presets.load("host"), cores=cores)
    image = assembler.assemble(stages(text, machine)["asm"])
    emulator = Machine(cores=cores, checked=checked)
    program = emulator.load(image)
    return [
        np.asarray(r) for r in program.run([np.array(a, order="C") for a in inputs], list(scalars))
    ]


def check(
    text: str,
    inputs: Sequence[np.ndarray],
    scalars: Sequence[Any] = (),
    tolerance: float = 1e-5,
    **options: Any,
) -> list[np.ndarray]:
    """Compares the emulator's results with the reference's; gives them."""
    with mlir.context(), mlir.ir.Location.unknown():
        expected = reference.evaluate(mlir.ir.Module.parse(text), [*inputs, *scalars])
    found = run(text, inputs, scalars, **options)
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.shape == b.shape, f"result {k}: shape {a.shape}, expected {b.shape}"
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"result {k}")
        else:
            np.testing.assert_array_equal(a, b, err_msg=f"result {k}")
    return found
