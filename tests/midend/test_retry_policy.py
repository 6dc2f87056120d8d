"""Fusion that a later stage cannot lower is undone; values are the CPU's either way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from ftm_backend import compiler_stages, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand, Value
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.kernel_ir.verifier import verify_kernels
from ftm_backend.midend.lowering.registry import LOWERINGS
from ftm_backend.midend.retry_policy import Restrictions, after_kernel
from ftm_backend.midend.schedule.loop_nest import tiling
from ftm_backend.midend.transforms.fusion.fusion_rule import FusionContext
from ftm_backend.pass_manager import VerifyError
from ftm_backend.target import presets

Program = tuple[str, Callable[..., torch.Tensor]]


def centered(t: torch.Tensor) -> torch.Tensor:
    return t - t.mean(1, keepdim=True)


CENTERED: Program = (
    """trace
  %0 = param f32[32,4]
  %1 = param f32[4,576]
  %2 = param f32[32,32]
  %3 = param f32[32,4]
  %4 = aten::mm(self=%0, mat2=%1) : f32[32,576]
  %5 = aten::mean.dim(self=%4, dim=[1], keepdim=true, dtype=none) : f32[32,1]
  %6 = aten::sub.Tensor(self=%4, other=%5, alpha=1) : f32[32,576]
  %7 = aten::mm(self=%2, mat2=%6) : f32[32,576]
  %8 = aten::mean.dim(self=%7, dim=[1], keepdim=true, dtype=none) : f32[32,1]
  %9 = aten::sub.Tensor(self=%7, other=%8, alpha=1) : f32[32,576]
  %10 = aten::mm(self=%3, mat2=%1) : f32[32,576]
  %11 = aten::add.Tensor(self=%9, other=%10, alpha=1) : f32[32,576]
  return %11
""",
    lambda a, x, b, d: centered(b @ centered(a @ x)) + d @ x,
)

SUM: Program = (
    """trace
  %0 = param f32[16,16]
  %1 = param f32[16,576]
  %2 = aten::mm(self=%0, mat2=%1) : f32[16,576]
  %3 = aten::sum.dim_IntList(self=%2, dim=[1], keepdim=false, dtype=none) : f32[16]
  return %3
""",
    lambda a, x: (a @ x).sum(1),
)

CLASSIFIER: Program = (
    """trace
  %0 = param f32[1,16,24,24]
  %1 = param f32[16,16,3,3]
  %2 = aten::convolution(input=%0, weight=%1, bias=none, stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, """
    """output_padding=[0,0], groups=1) : f32[1,16,22,22]
  %3 = aten::mean.dim(self=%2, dim=[2,3], keepdim=false, dtype=none) : f32[1,16]
  return %3
""",
    lambda x, w: torch.nn.functional.conv2d(x, w).mean((2, 3)),
)

LARGEST: Program = (
    """trace
  %0 = param f32[24,300]
  %1 = ftm.view(base=%0, sizes=[3,300,8], strides=[2400,1,300], offset=0) : f32[3,300,8]
  %2 = aten::amax(self=%1, dim=[-1], keepdim=true) : f32[3,300,1]
  %3 = aten::eq.Tensor(self=%2, other=%1) : i1[3,300,8]
  %4 = aten::sum.dim_IntList(self=%3, dim=[-1], keepdim=true, dtype=none) : i64[3,300,1]
  %5 = aten::div.Tensor(self=%2, other=%4) : f32[3,300,1]
  %6 = aten::mul.Tensor(self=%5, other=%3) : f32[3,300,8]
  return %6
""",
    lambda x: (v := x.view(3, 8, 300).transpose(1, 2)) * (v == v.amax(-1, keepdim=True)),
)

WIDE_EPILOGUE: Program = (
    """trace
  %0 = param f32[512,8]
  %1 = param f32[8,128]
  %2 = param f32[512,136]
  %3 = param i64[512,128]
  %4 = aten::mm(self=%0, mat2=%1) : f32[512,128]
  %5 = ftm.view(base=%2, sizes=[512,128], strides=[136,1], offset=8) : f32[512,128]
  %6 = aten::add.Tensor(self=%5, other=%4, alpha=1) : f32[512,128]
  %7 = aten::add.Tensor(self=%6, other=%3, alpha=1) : f32[512,128]
  return %7
""",
    lambda a, b, x, n: x[:, 8:] + a @ b + n,
)

ADD: Program = (
    """trace
  %0 = param f32[1000,1000]
  %1 = param f32[1000,1000]
  %2 = aten::add.Tensor(self=%0, other=%1, alpha=1) : f32[1000,1000]
  return %2
""",
    torch.add,
)

PROGRAMS = {
    "centered": CENTERED,
    "sum": SUM,
    "classifier": CLASSIFIER,
    "largest": LARGEST,
    "wide epilogue": WIDE_EPILOGUE,
}
MACHINES = [(name, cores) for name in presets.NAMES for cores in (1, 2, 8)]


def check(program: Program, machine: str, cores: int) -> None:
    """Compiles and runs a program on the checked emulator, and compares it with PyTorch."""
    text, function = program
    shapes = [line.split("param ")[1] for line in text.splitlines() if " = param " in line]
    torch.manual_seed(1)
    inputs = []
    for shape in shapes:
        dtype, sizes = shape.rstrip("]").split("[")
        dims = [int(n) for n in sizes.split(",")]
        inputs.append(torch.randn(dims) if dtype == "f32" else torch.randint(-9, 9, dims))
    image = driver.compile(text, CompileOptions(machine=machine, cores=cores)).image
    with Machine(cores=cores, checked=True) as emulator:
        (found,) = emulator.load(image).run([np.ascontiguousarray(t.numpy()) for t in inputs])
    wanted = function(*(t.double() if t.is_floating_point() else t for t in inputs))
    torch.testing.assert_close(torch.from_numpy(found), wanted.float(), rtol=1e-4, atol=1e-3)


@pytest.fixture
def undone(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The fusions undone so far, without functions that were compiled before."""
    driver.forget()
    caplog.set_level(logging.INFO, "ftm_backend.driver")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_has_to_be_undone(name: str, undone: Callable[[], list[str]]) -> None:
    for machine, cores in MACHINES:
        check(PROGRAMS[name], machine, cores)
    assert undone() == []


def fail(*_: Any) -> None:
    raise ValueError("this kernel is not lowered")


def test_a_pass_is_left_out(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(
        FusionContext, "is_stored_without", lambda *_: True
    )  # the product's blocks are not stored: no sums go with them
    check(SUM, "m7032", 2)
    (message,) = undone()
    assert "without fuse-gemm-reduction" in message


def test_statements_get_kernels_of_their_own(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    nest = LOWERINGS["nest"]
    monkeypatch.setitem(
        LOWERINGS,
        "nest",
        replace(nest, lower=lambda k, b: fail() if len(k.statements) > 2 else nest.lower(k, b)),
    )
    check(LARGEST, "host", 2)
    assert "in kernels of their own" in undone()[-1]


def test_tiles_get_smaller(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(tiling, "element_bytes", lambda axes, tiled: 1)
    monkeypatch.setattr(tiling, "_SHARE", 1)
    check(ADD, "host", 1)
    assert any("of the scratchpads" in message for message in undone())


def test_a_part_of_the_scratchpads_is_in_the_text() -> None:
    machine = presets.load("m7032")
    found = grouped(CENTERED)
    found.kernels[1].shrink(4)
    (_, kernel, *_) = pipeline.KERNELS.read(
        pipeline.KERNELS.write(found, "fuse-ops"), machine
    ).kernels
    assert (kernel.share, kernel.machine.am_bytes) == (4, machine.am_bytes // 4)


def test_a_pass_that_breaks_a_rule_is_left_out(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    def broken(grouped: KernelModule, machine: presets.MachineParameters) -> KernelModule:
        grouped.kernels.reverse()
        return grouped

    stages = list(compiler_stages.STAGES)
    step = compiler_stages.MIDEND_STAGES["fuse-gemm-reduction"]
    at = [stage.name for stage in stages].index(step.stage)
    stages[at] = stages[at]._replace(run=partial(pipeline.apply, replace(step, run=broken)))
    monkeypatch.setattr(compiler_stages, "STAGES", tuple(stages))
    check(CENTERED, "m7032", 2)
    assert "before it" in undone()[-1]


def test_what_cannot_be_undone_is_a_short_error(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    def always(kernel: object, b: object) -> None:
        raise ValueError("x" * 1_000_000)

    monkeypatch.setitem(LOWERINGS, "contraction", replace(LOWERINGS["contraction"], lower=always))
    with pytest.raises(driver.CompileError, match="compiling failed at stage 'tiles'") as caught:
        driver.compile(SUM[0], CompileOptions(machine="m7032", cores=2))
    assert len(str(caught.value)) < 10_000


def test_attempts_end() -> None:
    """Whatever fails, there is less to undo each time."""
    kernel = grouped(CENTERED).kernels[1]
    for too_large in (False, True):
        restrictions: Restrictions | None = Restrictions()
        attempts = 0
        while restrictions is not None:
            restrictions = after_kernel(restrictions, kernel, too_large, pipeline.PASSES)
            attempts += 1
        assert attempts < 10


def grouped(program: Program) -> KernelModule:
    machine = presets.load("m7032")
    value: Any = pipeline.LINALG.read(driver.run_from("trace", program[0], "linalg"), machine)
    for step in pipeline.pipeline(machine):
        value = pipeline.apply(step, value, machine)
        if step.name == "fuse-ops":
            break
    return value


def test_the_verifier_finds_what_is_wrong_with_kernels() -> None:
    found = grouped(CENTERED)
    verify_kernels(found)
    missing = grouped(CENTERED)
    missing.kernels[1].statements.pop()
    with pytest.raises(VerifyError, match="no kernel computes"):
        verify_kernels(missing)
    late = grouped(CENTERED)
    late.kernels.reverse()
    with pytest.raises(VerifyError, match="which no kernel before it stores"):
        verify_kernels(late)
    twice = grouped(CENTERED)
    twice.kernels.append(twice.kernels[0])
    with pytest.raises(VerifyError, match=r"stores Value.*, as"):
        verify_kernels(twice)
    foreign = grouped(CENTERED)
    foreign.kernels[0].statements += grouped(SUM).kernels[0].statements
    with pytest.raises(VerifyError, match="which is not in the program"):
        verify_kernels(foreign)


def test_a_value_is_shown_without_what_computes_it() -> None:
    (kernel, *_) = grouped(CENTERED).kernels
    value = kernel.outputs[0]
    assert isinstance(value, Value) and len(repr(value)) < 200
    assert len(repr(Operand(value, Affine(0, (1,))))) < 400
