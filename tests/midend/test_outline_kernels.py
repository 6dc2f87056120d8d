"""Pass `outline-kernels`: which kernels share a function, and that it is right for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ftm_backend import driver
from ftm_backend.codegen import pipeline as codegen
from ftm_backend.codegen.emit_assembly import emit_function
from ftm_backend.compile_options import CompileOptions
from ftm_backend.frontend import lower
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.midend.lowering import lower_kernels
from ftm_backend.midend.transforms.memory.outline_kernels import KernelCall, OutlinedFunction
from ftm_backend.target import presets
from ops import capture


def shared(
    step: Callable[..., Any], *tensors: torch.Tensor, machine: str = "host"
) -> KernelProgram:
    """The program of ``step``, through ``outline-kernels``."""
    value: Any = lower(capture.function(step, *tensors).trace)
    preset = presets.load(machine)
    for each in pipeline.pipeline(preset)[:-1]:
        value = each.run(value, preset)
    assert isinstance(value, KernelProgram) and len(value.calls) == len(value.kernels)
    return value


def cells(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    for step in x.unbind(1):
        h = torch.tanh(F.linear(step, w) + F.linear(h, u))
    return h


def layers(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    for w in weights:
        x = F.layer_norm(x + F.gelu(x @ w), x.shape[-1:])
    return x


def test_equal_layers_are_one_function() -> None:
    few = shared(layers, torch.randn(64, 64), *(torch.randn(64, 64) for _ in range(2)))
    many = shared(layers, torch.randn(64, 64), *(torch.randn(64, 64) for _ in range(9)))
    assert len(many.functions) == len(few.functions)
    assert len(many.calls) == len(few.calls) * 9 // 2


def test_cells_of_a_sequence_differ_in_an_address() -> None:
    program = shared(
        cells, torch.randn(4, 30, 8), torch.randn(16, 8), torch.randn(16, 16), torch.randn(4, 16)
    )
    assert len(program.kernels) >= 60 and len(program.functions) <= 6
    starts = [{symbol: at for symbol, at, _ in call.buffers}.get("b0") for call in program.calls]
    assert {at for at in starts if at is not None} >= {8 * k for k in range(30)}


@pytest.mark.parametrize(
    ("step", "functions"),
    [
        # scans address from the start of a buffer
        (lambda x, y: (x[2:5].cumsum(0), x[4:7].cumsum(0), y[1:4].cumsum(0)), 3),
        (lambda x, y: (torch.sort(x)[0], torch.sort(y)[0]), None),
        # bodies and types differ
        (lambda x, y: (x.exp().sum(), y.sin().sum(), x.double().exp().sum()), None),
        (lambda x, y: (x[0:6:2].sin(), y[0:3].sin()), None),  # strides differ
        # distances within a buffer differ
        (lambda x, y: (x[:3].sin() + x[3:6], y[:3].sin() + y[4:7]), None),
    ],
)
def test_what_differs_is_not_shared(step: Callable[..., Any], functions: int | None) -> None:
    program = shared(step, torch.randn(8), torch.randn(8))
    keys = [function.key for function in program.functions]
    assert len(set(keys)) == len(keys)
    if functions is not None:
        assert (
            len([f for f in program.functions if f.kernel.kind is not KernelKind.LOOP_NEST])
            == functions
        )


def test_scalars_are_parameters() -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for number in (1.5, 2.5, 3.5):
            x = (x @ w * number).tanh()
        return x

    program = shared(step, torch.randn(32, 32), torch.randn(32, 32))
    (function,) = program.functions
    assert [dtype for _, dtype in function.scalars] == ["f64"]
    assert len({tuple(call.scalars) for call in program.calls}) == 3


STEPS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "cells": (
        cells,
        (torch.randn(4, 7, 8), torch.randn(16, 8), torch.randn(16, 16), torch.randn(4, 16)),
    ),
    "layers": (layers, (torch.randn(64, 64), *(torch.randn(64, 64) for _ in range(4)))),
    "columns": (
        lambda x: [x[:, k : k + 16].softmax(1) @ x[:16, k : k + 8] for k in range(0, 48, 5)],
        (torch.randn(32, 64),),
    ),
    "flips": (
        lambda x, w: [x[k:].flip(0)[:6].tanh() @ w for k in range(5)],
        (torch.randn(16, 3), torch.randn(3, 70)),
    ),
    "places": (
        lambda x, i: [x.index_copy(0, i[k : k + 1], x[k : k + 1] + 1) for k in range(3)],
        (torch.randn(8, 300), torch.arange(8)),
    ),
    "embedding": (
        lambda w, i: [F.embedding(i[k], w).sin() for k in range(4)],
        (torch.randn(16, 32), torch.arange(12).view(4, 3)),
    ),
    "convolutions": (
        lambda x, w: F.conv2d(F.conv2d(x, w, padding=1).relu(), w, padding=1).relu(),
        (torch.randn(2, 8, 9, 9), torch.randn(8, 8, 3, 3)),
    ),
}


def written(
    program: KernelProgram, machine: str
) -> Iterator[tuple[KernelCall, list[str], list[str]]]:
    """For each call the function that it calls, and that function as the call's own kernel would
    have it."""
    preset = presets.load(machine)

    def lines(function: OutlinedFunction) -> list[str]:
        made = TileProgram(
            preset.name,
            [lower_kernels._lower(function)],
            header=[d for d in lower_kernels.declarations(program) if d.name.startswith("o")],
        )  # where buffers lie is no matter of functions
        for each in codegen.pipeline(preset):
            made = each.run(made, preset)
        (kernel,) = made.kernels
        return list(emit_function(kernel).printed)

    known: dict[str, list[str]] = {}
    for kernel, call in zip(program.kernels, program.calls, strict=True):
        function = call.function
        if function.name not in known:
            known[function.name] = lines(function)
        if kernel is not function.kernel:
            arguments = replace(
                function.arguments,
                buffers={
                    symbol: (number, at) for number, (symbol, at, _) in enumerate(call.buffers)
                },
                scalars={symbol: number for number, symbol in enumerate(call.scalars)},
            )
            own = OutlinedFunction(
                function.name,
                function.key,
                kernel,
                arguments,
                function.parameters,
                function.scalars,
            )
            yield call, known[function.name], lines(own)


@pytest.mark.parametrize("machine", ["host", "m7032"])
@pytest.mark.parametrize("name", STEPS)
def test_every_kernel_would_be_lowered_to_the_function_that_it_calls(
    name: str, machine: str
) -> None:
    step, tensors = STEPS[name]
    compared = 0
    for call, function, own in written(shared(step, *tensors, machine=machine), machine):
        assert own == function, call.text
        compared += 1
    assert compared or name == "convolutions"


@pytest.mark.parametrize("name", STEPS)
def test_known_functions_give_the_same_program(name: str) -> None:
    step, tensors = STEPS[name]
    trace = str(capture.function(step, *tensors).trace)
    driver.forget()
    cold = driver.compile(trace)
    warm = driver.compile(trace)
    assert (warm.asm, warm.image) == (cold.asm, cold.image)
    driver.forget()
    assert driver.compile(trace).image == cold.image


class Shelf(dict[str, bytes]):
    """Functions as a cache on disk keeps them."""

    def get(self, digests: Sequence[str]) -> dict[str, bytes]:  # type: ignore[override]
        return {digest: self[digest] for digest in digests if digest in self}

    def put(self, functions: Mapping[str, bytes]) -> None:
        self.update(functions)


@pytest.mark.parametrize("machine", ["host", "m7032"])
@pytest.mark.parametrize("name", STEPS)
def test_functions_of_another_process_give_the_same_program(name: str, machine: str) -> None:
    step, tensors = STEPS[name]
    trace, options, shelf = (
        str(capture.function(step, *tensors).trace),
        CompileOptions(machine=machine),
        Shelf(),
    )
    driver.forget()
    cold = driver.compile(trace, options, shelf)
    stored = dict(shelf)
    assert stored
    driver.forget()
    read = driver.compile(trace, options, shelf)
    assert (read.asm, read.image) == (cold.asm, cold.image)
    assert shelf == stored
