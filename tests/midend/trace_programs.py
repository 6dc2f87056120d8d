"""Programs of `trace_builder`: convolutions, the way to kernels and assembly, and the comparison of
results.

    program = convolution("forward", 2, 3, 4, (8, 8), (3, 3), padding=1)
    check(program, assembly(program, M7032), 1, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ftm_backend import assembler, codegen
from ftm_backend.frontend import lower
from ftm_backend.ir.linalg.function import LinalgFunction
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend.harness import TOLERANCE
from midend.trace_builder import TORCH, Program, convolution_arguments
from ops.arrays import from_numpy

M7032 = presets.load("m7032")


def convolution(
    direction: str,
    images: int,
    channels: int,
    filters: int,
    size: Sequence[int],
    window: Sequence[int],
    dtype: str = "f32",
    groups: int = 1,
    **where: Any,
) -> Program:
    """A convolution of feature maps of `size`.

    Args:
        direction: ``forward``; ``input`` or ``weight``, whose gradient it is; or ``transposed``, a
            transposed convolution whose result has `size`.
        images, channels, filters, size, window, groups: The shapes.
        dtype: The type of elements.
        where: Stride, padding and dilation.
    """
    program = Program(dtype)
    x = program.random(images, channels, *size)
    w = program.random(filters, channels // groups, *window)
    if direction == "forward":
        return program.returns(program.convolution(x, w, groups=groups, **where))
    words = convolution_arguments(len(size), **where)
    steps = list(zip(words["stride"], words["padding"], words["dilation"], size, window))
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for s, p, d, n, k in steps]
    gradient = program.random(images, filters, *out)
    if direction == "transposed":
        left = [
            n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
            for o, (s, p, d, n, k) in zip(out, steps, strict=True)
        ]
        made = program.convolution(gradient, w, transposed=True, output_padding=left, **where)
        return program.returns(made)
    mask = (direction == "input", direction == "weight")
    made = program.convolution_backward(gradient, x, w, mask, groups=groups, **where)
    return program.returns(made[mask.index(True)])


def linalg(program: Program) -> LinalgFunction:
    """What the midend takes, without the way over MLIR's text, which takes longer than the rest."""
    trace = Trace.parse(str(program))
    trace.verify()
    return lower(trace)


def before(program: Program, name: str, machine: MachineParameters = M7032) -> Any:
    """What the pass `name` takes."""
    value: Any = linalg(program)
    for step in pipeline.pipeline(machine):
        if step.name == name:
            return value
        value = step.run(value, machine)
    raise ValueError(f"{machine.name} has no pass {name}")


def after(program: Program, name: str, machine: MachineParameters = M7032) -> Any:
    """What the pass `name` leaves."""
    (step,) = (step for step in pipeline.PASSES if step.name == name)
    return step.run(before(program, name, machine), machine)


def planned(program: Program, machine: MachineParameters = M7032) -> KernelProgram:
    """The kernels before they are lowered."""
    kernels = before(program, "lower-kernels", machine)
    assert isinstance(kernels, KernelProgram)
    return kernels


def lowered(kernels: KernelProgram) -> str:
    """The assembly of kernels that `planned` gave."""
    machine = kernels.kernels[0].machine
    return str(codegen.pipeline.run(pipeline.PASSES[-1].run(kernels, machine), machine))


def assembly(program: Program, machine: MachineParameters = M7032) -> str:
    kernels = pipeline.run(linalg(program), machine)
    return str(codegen.pipeline.run(kernels, machine))


def check(
    program: Program,
    text: str,
    *cores: int,
    tolerance: float | None = None,
    scaled: bool = True,
    donate: Sequence[int] = (),
) -> None:
    """Run assembly on so many cores in checked mode, and compare with PyTorch.

    Args:
        program: Has the inputs and the results.
        text: The assembly.
        cores: Counts of cores, one run each.
        tolerance: Relative and absolute, instead of `TOLERANCE` of each result's type.
        scaled: Multiply the absolute tolerance by the result's largest element.
        donate: Inputs that results may replace.
    """
    image = assembler.assemble(text)
    for count in cores:
        with Machine(cores=count, checked=True) as emulator:
            found = emulator.load(image).run(
                program.inputs, [scalar.number for scalar in program.scalars], donate=donate
            )
        for number, (got, wanted) in enumerate(zip(found, program.results, strict=True)):
            seen, exact = from_numpy(np.asarray(got), TORCH[wanted.dtype]), wanted.exact
            if not seen.is_floating_point():
                assert torch.equal(seen, exact), f"result {number} on {count} cores"
                continue
            near = TOLERANCE[wanted.dtype] if tolerance is None else tolerance
            is_finite = exact.isfinite() if scaled else torch.zeros_like(exact, dtype=torch.bool)
            largest = exact[is_finite].abs().max().item() if is_finite.any() else 1.0
            torch.testing.assert_close(
                seen.double(),
                exact,
                rtol=near,
                atol=near * max(largest, 1.0),
                equal_nan=True,
                msg=lambda text, at=(number, count): f"result {at[0]} on {at[1]} cores: {text}",
            )
