"""Fusion that a later stage cannot lower is undone; values are the CPU's either way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from ftm_backend import compiler_stages, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg import function
from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.kernel_ir.verifier import verify_kernels
from ftm_backend.midend.lowering.registry import LOWERINGS
from ftm_backend.midend.retry_policy import Restrictions, after_kernel
from ftm_backend.midend.schedule.loop_nest import tiling
from ftm_backend.midend.transforms.fusion.fusion_rule import FusionContext
from ftm_backend.pass_manager import VerifyError
from ftm_backend.target import presets
from midend import trace_programs
from midend.trace_builder import Program, Value
from midend.trace_programs import after


def centered(t: Program, x: Value) -> Value:
    mean = t.call("mean.dim", self=x, dim=[1], keepdim=True, dtype=None)
    return t.call("sub.Tensor", self=x, other=mean, alpha=1)


def two_centered(t: Program) -> Value:
    a, x, b, d = (t.random(*shape) for shape in ((32, 4), (4, 576), (32, 32), (32, 4)))
    y = centered(t, t.call("mm", self=a, mat2=x))
    y = centered(t, t.call("mm", self=b, mat2=y))
    return t.add(y, t.call("mm", self=d, mat2=x))


def summed(t: Program) -> Value:
    product = t.call("mm", self=t.random(16, 16), mat2=t.random(16, 576))
    return t.call("sum.dim_IntList", self=product, dim=[1], keepdim=False, dtype=None)


def classifier(t: Program) -> Value:
    x = t.convolution(t.random(1, 16, 24, 24), t.random(16, 16, 3, 3))
    return t.call("mean.dim", self=x, dim=[2, 3], keepdim=False, dtype=None)


def largest(t: Program) -> Value:
    x = t.view(t.random(24, 300), [3, 300, 8], [2400, 1, 300])
    most = t.call("amax", self=x, dim=[-1], keepdim=True)
    is_most = t.call("eq.Tensor", self=most, other=x)
    count = t.call("sum.dim_IntList", self=is_most, dim=[-1], keepdim=True, dtype=None)
    return t.call("mul.Tensor", self=t.call("div.Tensor", self=most, other=count), other=is_most)


def wide_epilogue(t: Program) -> Value:
    product = t.call("mm", self=t.random(512, 8), mat2=t.random(8, 128))
    rows = t.view(t.random(512, 136), [512, 128], [136, 1], 8)
    number = t.parameter(torch.arange(512 * 128).reshape(512, 128) % 19 - 9, "i64")
    return t.add(t.add(rows, product), number)


def added(t: Program) -> Value:
    return t.add(t.random(1000, 1000), t.random(1000, 1000))


PROGRAMS = (two_centered, summed, classifier, largest, wide_epilogue, added)
MACHINES = [(name, cores) for name in presets.NAMES for cores in (1, 2, 8)]


def made(returned: Callable[[Program], Value]) -> Program:
    program = Program()
    return program.returns(returned(program))


def check(returned: Callable[[Program], Value], machine: str, cores: int) -> None:
    """Compiles and runs a program on the checked emulator, and compares it with PyTorch."""
    program = made(returned)
    text = driver.compile(str(program), CompileOptions(machine=machine, cores=cores)).asm
    trace_programs.check(program, text, cores, tolerance=1e-4)


@pytest.fixture
def undone(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The fusions undone so far, without functions that were compiled before."""
    driver.forget()
    caplog.set_level(logging.INFO, "ftm_backend.driver")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_has_to_be_undone(
    program: Callable[[Program], Value], undone: Callable[[], list[str]]
) -> None:
    for machine, cores in MACHINES:
        check(program, machine, cores)
    assert undone() == []


def fail(*_: Any) -> None:
    raise ValueError("this kernel is not lowered")


def test_a_pass_is_left_out(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(
        FusionContext, "is_stored_without", lambda *_: True
    )  # the product's blocks are not stored: no sums go with them
    check(summed, "m7032", 2)
    (message,) = undone()
    assert "without fuse-gemm-reduction" in message


def test_statements_get_kernels_of_their_own(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    nest = LOWERINGS[KernelKind.LOOP_NEST]
    monkeypatch.setitem(
        LOWERINGS,
        KernelKind.LOOP_NEST,
        replace(nest, lower=lambda k, b: fail() if len(k.statements) > 2 else nest.lower(k, b)),
    )
    check(largest, "host", 2)
    assert "in kernels of their own" in undone()[-1]


def test_tiles_get_smaller(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(tiling, "element_bytes", lambda axes, tiled: 1)
    monkeypatch.setattr(tiling, "_SHARE", 1)
    check(added, "host", 1)
    assert any("of the scratchpads" in message for message in undone())


def test_a_part_of_the_scratchpads_is_in_the_text() -> None:
    machine = presets.load("m7032")
    found = grouped(two_centered)
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
    check(two_centered, "m7032", 2)
    assert "before it" in undone()[-1]


def test_what_cannot_be_undone_is_a_short_error(
    monkeypatch: pytest.MonkeyPatch, undone: Callable[[], list[str]]
) -> None:
    def always(kernel: object, b: object) -> None:
        raise ValueError("x" * 1_000_000)

    monkeypatch.setitem(
        LOWERINGS, KernelKind.CONTRACTION, replace(LOWERINGS[KernelKind.CONTRACTION], lower=always)
    )
    with pytest.raises(driver.CompileError, match="compiling failed at stage 'tiles'") as caught:
        driver.compile(str(made(summed)), CompileOptions(machine="m7032", cores=2))
    assert len(str(caught.value)) < 10_000


def test_attempts_end() -> None:
    """Whatever fails, there is less to undo each time."""
    kernel = grouped(two_centered).kernels[1]
    for too_large in (False, True):
        restrictions: Restrictions | None = Restrictions()
        attempts = 0
        while restrictions is not None:
            restrictions = after_kernel(restrictions, kernel, too_large, pipeline.PASSES)
            attempts += 1
        assert attempts < 10


def grouped(returned: Callable[[Program], Value]) -> KernelModule:
    return after(made(returned), "fuse-ops")


def test_the_verifier_finds_what_is_wrong_with_kernels() -> None:
    found = grouped(two_centered)
    verify_kernels(found)
    missing = grouped(two_centered)
    missing.kernels[1].statements.pop()
    with pytest.raises(VerifyError, match="no kernel computes"):
        verify_kernels(missing)
    late = grouped(two_centered)
    late.kernels.reverse()
    with pytest.raises(VerifyError, match="which no kernel before it stores"):
        verify_kernels(late)
    twice = grouped(two_centered)
    twice.kernels.append(twice.kernels[0])
    with pytest.raises(VerifyError, match=r"stores Value.*, as"):
        verify_kernels(twice)
    foreign = grouped(two_centered)
    foreign.kernels[0].statements += grouped(summed).kernels[0].statements
    with pytest.raises(VerifyError, match="which is not in the program"):
        verify_kernels(foreign)


def test_a_value_is_shown_without_what_computes_it() -> None:
    (kernel, *_) = grouped(two_centered).kernels
    value = kernel.outputs[0]
    assert isinstance(value, function.Value) and len(repr(value)) < 200
    assert len(repr(Operand(value, Affine(0, (1,))))) < 400
