"""Pass `fuse-col2im-epilogue`: results and DDR traffic."""

from __future__ import annotations

import logging
import math

import pytest
import torch

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.schedule.gemm.kernel_schedule import schedule_statements
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import DTYPES, TOLERANCE, tune
from midend.test_conv_transpose import SHAPES, convolution, gradient
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")


class Program:
    """An image's gradient, to which another one is added, masked as an activation was; returned
    with its sum over each channel.

    kept: the gradient by itself is returned, too. scaled: a number for each channel takes the other
        gradient's place.
    """

    def __init__(
        self,
        name: str,
        dtype: str = "f32",
        kept: bool = False,
        scaled: bool = False,
        numbers: tuple[float, ...] = (),
    ) -> None:
        text, (grad, _, weight), _ = gradient(name, dtype)
        self.dtype, self.kept, self.scaled = dtype, kept, scaled
        n, c, *_ = SHAPES[name]
        sides = SHAPES[name][3]
        generator = torch.Generator().manual_seed(1)
        other = torch.randn((1, c, 1, 1) if scaled else (n, c, *sides), generator=generator).to(
            DTYPES[dtype]
        )
        mask = torch.randn((n, c, *sides), generator=generator).to(DTYPES[dtype])
        for place, number in enumerate(numbers):
            other.view(-1)[5 * place] = number
            mask.view(-1)[7 * place + 1] = number
        self.tensors = [
            from_numpy(grad, DTYPES[dtype]),
            mask,
            from_numpy(weight, DTYPES[dtype]),
            other,
        ]
        image = f"{dtype}[{n},{c},{sides[0]},{sides[1]}]"
        types = [f"{dtype}[{','.join(map(str, t.shape))}]" for t in self.tensors]
        step = next(line for line in text.splitlines() if "convolution_backward" in line)
        step = step.replace("%3, %4, %5 =", "%4, %5, %6 =")
        self.text = "\n".join([
            "trace",
            *(f"  %{k} = param {t}" for k, t in enumerate(types)),
            step,
            f"  %7 = aten::add.Tensor(self=%4, other=%3, alpha=1) : {image}",
            f"  %8 = aten::threshold_backward(grad_output=%7, self=%1, threshold=0) : {image}",
            f"  %9 = aten::sum.dim_IntList(self=%8, dim=[0,2,3], keepdim=false, dtype=none) : {dtype}[{c}]",
            f"  return {'%4, ' if kept else ''}%8, %9",
            "",
        ])  # fmt: skip
        self.name = name

    def reference(self) -> list[torch.Tensor]:
        _, _, _, _, _, stride, padding, dilation = SHAPES[self.name]
        grad, mask, weight, other = (t.double() for t in self.tensors)
        made = torch.nn.grad.conv2d_input(mask.shape, weight, grad, stride, padding, dilation)
        masked = torch.where(mask <= 0, 0.0, made + other)
        return [made] * self.kept + [masked, masked.sum((0, 2, 3))]


def check(program: Program, cores: int, machine: str = "m7032") -> str:
    text = driver.run_from(
        "trace", program.text, "asm", CompileOptions(machine=machine, cores=cores)
    )
    with Machine(cores=cores, checked=True) as emulator:
        got = emulator.load(assembler.assemble(text)).run(
            [to_numpy(t) for t in program.tensors], []
        )
    for result, wanted in zip(got, program.reference(), strict=True):
        seen = from_numpy(result, DTYPES[program.dtype]).double()
        finite = wanted[wanted.isfinite()].abs()
        largest = float(finite.max()) if len(finite) else 1.0
        tolerance = TOLERANCE[program.dtype] * 4
        torch.testing.assert_close(
            seen, wanted, rtol=tolerance, atol=tolerance * max(largest, 1.0), equal_nan=True
        )
    return text


def grouped(text: str) -> KernelModule:
    """The kernels behind the pass."""
    value = pipeline.LINALG.read(
        driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032", cores=8)), M7032
    )
    for step in pipeline.PASSES[
        : 1 + [step.name for step in pipeline.PASSES].index("fuse-col2im-epilogue")
    ]:
        value = step.run(value, M7032)
    assert isinstance(value, KernelModule)
    return value


def moved(program: Program) -> int:
    """Statements behind the product of the kernel that sums windows."""
    (fold,) = (k for k in grouped(program.text).kernels if k.kind == "fold")
    return len(fold.statements) - 1


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both passes always pay."""
    tune(monkeypatch, conv_transpose="col2im", fuse_col2im_epilogue="fuse")


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in SHAPES
        if name not in ("vectors", "one filter, one channel", "7x7 by 2, large")
    ],
)
def test_results(name: str, cores: int) -> None:
    check(Program(name), cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("name", ["3x3 by 2", "1x1 by 2, odd", "more than a block"])
def test_types(name: str, dtype: str) -> None:
    check(Program(name, dtype), 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("name", ["3x3", "3x3 by 2", "more than a block"])
def test_a_number_for_each_channel(name: str, cores: int) -> None:
    program = Program(name, scaled=True)
    check(program, cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_numbers_that_are_none_pass(cores: int) -> None:
    """A place that is masked has no NaN, whatever is added there."""
    check(Program("3x3 by 2", numbers=(math.nan, math.inf, -math.inf)), cores)


@pytest.mark.usefixtures("always")
def test_what_others_read_is_stored_as_it_was() -> None:
    program = Program("3x3 by 2", kept=True)
    assert moved(program) == 0
    check(program, 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    check(Program("3x3 by 2"), 2, machine)


def test_moved_where_it_pays() -> None:
    """No statement reads a gradient of 56x56 elements again."""
    (backward, *_), (n, c, side) = [convolution(56, 3, 2, backward=True)], (16, 64, 56)
    image = f"f32[{n},{c},{side},{side}]"
    text = backward.replace(
        "  return %3",
        f"  %6 = aten::threshold_backward(grad_output=%3, self=%1, threshold=0) : {image}\n  return %6",
    )
    kernels = grouped(text).kernels
    (fold,) = (k for k in kernels if k.kind == "fold")
    assert len(fold.statements) == 2
    assert not any(k.kind == "nest" for k in kernels)
    found = schedule_statements("fold", fold.statements, M7032)
    assert found is not None and found.plan is not None
    profile = cycle_model.model(
        driver.run_from("trace", text, "asm", CompileOptions(machine="m7032", cores=8)),
        machine="m7032",
        cores=8,
    )
    assert found.plan.cycles == pytest.approx(
        sum(kernel.cycles for kernel in profile.kernels if kernel.flops), rel=0.12
    )


def test_an_updated_tensor_is_read_when_it_is_complete(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The gradient of a grouped convolution with strides is spread between zeros by an update,
    whose parts are written after the fold."""
    tune(monkeypatch, fuse_col2im_epilogue="fuse")
    backward = "aten::convolution_backward(grad_output=%{}, input=%1, weight=%{}, bias_sizes=none, stride=[2,2], padding=[{}], dilation=[1,1], "
    backward += "output_padding=[0,0], transposed=false, groups={}, output_mask=[true,false,false]) : f32[5,6,14,18], none, none"
    text = "\n".join([
        "trace",
        "  %0 = param f32[5,11,7,9]",
        "  %1 = param f32[5,6,14,18]",
        "  %2 = param f32[11,6,3,3]",
        "  %3 = param f32[5,4,7,9]",
        "  %4 = param f32[4,3,1,1]",
        f"  %5, %6, %7 = {backward.format(0, 2, '1,1', 1)}",
        f"  %8, %9, %10 = {backward.format(3, 4, '0,0', 2)}",
        "  %11 = aten::add.Tensor(self=%5, other=%8, alpha=1) : f32[5,6,14,18]",
        "  return %11",
        "",
    ])  # fmt: skip
    shapes = [(5, 11, 7, 9), (5, 6, 14, 18), (11, 6, 3, 3), (5, 4, 7, 9), (4, 3, 1, 1)]
    inputs = [torch.randn(shape) for shape in shapes]
    a, _, w, other, shortcut = (t.double() for t in inputs)
    wanted = torch.nn.grad.conv2d_input(shapes[1], w, a, 2, 1) + torch.nn.grad.conv2d_input(
        shapes[1], shortcut, other, 2, groups=2
    )
    with caplog.at_level(logging.INFO, "ftm_backend.driver"):
        executable = driver.compile(text, CompileOptions(machine="m7002", cores=2))
    assert not caplog.records, "nothing is undone"
    with Machine(cores=2, checked=True) as emulator:
        (found,) = emulator.load(executable.image).run([to_numpy(t) for t in inputs])
    torch.testing.assert_close(torch.from_numpy(found), wanted.float(), rtol=1e-4, atol=1e-4)
