"""Pass `fuse-conv-backward`: results, matching and plans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.nn import functional

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.schedule.cost import estimate
from ftm_backend.midend.schedule.gemm.contraction_schedule import find_schedule
from ftm_backend.midend.schedule.gemm.conv_backward_plan import (
    match_conv_backward,
    plan_conv_backward,
)
from ftm_backend.midend.schedule.gemm.kernel_schedule import choose_schedule
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import tune

M7032 = presets.load("m7032")
KINDS = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCE = {"f32": 1e-4, "f64": 1e-10, "bf16": 5e-2, "f16": 5e-3}

SHAPES = {  # images, channels, filters, side of the image, window, stride, padding, dilation
    "one place": (16, 30, 40, 1, 3, 1, 1, 1),
    "3x3": (3, 7, 20, 9, 3, 1, 1, 1),
    "3x3, several blocks": (4, 100, 130, 4, 3, 1, 1, 1),
    "3x3 by 2": (5, 20, 50, 8, 3, 2, 1, 1),
    "3x3 by 2, odd": (3, 13, 33, 7, 3, 2, 1, 1),
    "1x1": (6, 70, 50, 5, 1, 1, 0, 1),
    "1x1 by 2": (9, 70, 45, 8, 1, 2, 0, 1),
    "5x5 by 3": (2, 6, 17, 17, 5, 3, 2, 1),
    "dilation 2": (2, 9, 18, 9, 3, 1, 2, 2),
    "two channels": (4, 2, 16, 6, 3, 1, 1, 1),
    "one image": (1, 40, 48, 7, 3, 1, 1, 1),
}


@dataclass
class Program:
    """A trace that returns the gradient of an image, weights that are updated with theirs, and the
    momentum of the update."""

    text: str
    arrays: list[np.ndarray]
    wanted: list[np.ndarray]


def program(name: str, dtype: str = "f32") -> Program:
    """``m = 0.9 m + dw; w = w - 0.1 m``."""
    n, c, f, side, window, stride, padding, dilation = SHAPES[name]
    generator = torch.Generator().manual_seed(0)
    x, w = (
        torch.randn((n, c, side, side), generator=generator),
        torch.randn((f, c, window, window), generator=generator),
    )
    made = functional.conv2d(x, w, None, stride, padding, dilation)
    grad, m = (
        torch.randn(made.shape, generator=generator),
        torch.randn(w.shape, generator=generator),
    )
    tensors = [t.to(KINDS[dtype]) for t in (grad, x, w, m)]
    grad, x, w, m = (t.to(torch.float64).clone().requires_grad_() for t in tensors)
    of_image, of_weights = torch.autograd.grad(
        functional.conv2d(x, w, None, stride, padding, dilation), [x, w], grad
    )
    momentum = 0.9 * m + of_weights
    types = [f"{dtype}[{','.join(map(str, t.shape))}]" for t in tensors]
    words = ", ".join(
        f"{key}=[{v},{v}]"
        for key, v in {"stride": stride, "padding": padding, "dilation": dilation}.items()
    )
    lines = [
        "trace",
        *(f"  %{k} = param {t}" for k, t in enumerate(types)),
        "  $0 = scalar f64",
        "  $1 = scalar f64",
    ]
    lines += [
        f"  %4, %5, %6 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, {words}, transposed=false, "
        f"output_padding=[0,0], groups=1, output_mask=[true,true,false]) : {types[1]}, {types[2]}, none",
        f"  %7 = aten::mul.Scalar(self=%3, other=$0) : {types[2]}",
        f"  %8 = aten::add.Tensor(self=%7, other=%5, alpha=1) : {types[2]}",
        f"  %9 = aten::mul.Scalar(self=%8, other=$1) : {types[2]}",
        f"  %10 = aten::sub.Tensor(self=%2, other=%9, alpha=1) : {types[2]}",
        "  return %4, %8, %10",
    ]
    results = [of_image, momentum, w - 0.1 * momentum]
    arrays = [(t.view(torch.uint16) if dtype == "bf16" else t).numpy() for t in tensors]
    return Program("\n".join(lines) + "\n", arrays, [t.detach().numpy() for t in results])


def compiled(text: str, cores: int, machine: str = "m7032") -> str:
    return driver.run_from("trace", text, "asm", CompileOptions(machine=machine, cores=cores))


def grouped(text: str) -> KernelModule:
    """The kernels that the pass finds."""
    function = pipeline.LINALG.read(
        driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032")), M7032
    )
    for step in pipeline.PASSES[
        : [step.name for step in pipeline.PASSES].index("fuse-conv-backward")
    ]:
        function = step.run(function, M7032)
    return function


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pays wherever it is possible."""
    tune(monkeypatch, conv_transpose="col2im", fuse_conv_backward="fuse")
    monkeypatch.setattr("ftm_backend.midend.transforms.tensor.split_k._promising", lambda *_: False)
    monkeypatch.setattr("ftm_backend.midend.transforms.tensor.pack_operands._order", lambda *_: [])
    for user in ("fuse_ops", "kernel_builder"):
        monkeypatch.setattr(
            f"ftm_backend.midend.transforms.fusion.{user}.choose_schedule",
            lambda *given: (False, choose_schedule(*given)[1]),
        )


def check(name: str, cores: int, dtype: str = "f32", machine: str = "m7032") -> None:
    """Compiles a program whose gradients are one kernel, and runs it in checked mode."""
    made = program(name, dtype)
    text = compiled(made.text, cores, machine)
    kernels = text.split("@func ")[1:]
    (joined,) = [kernel for kernel in kernels if "FOLD" in kernel]
    assert sum("MM" in kernel for kernel in kernels) == 1 and "@map" in joined, "one kernel"
    with Machine(cores=cores, checked=True) as emulator:
        got = emulator.load(assembler.assemble(text)).run(made.arrays, [0.9, 0.1])
    for mine, wanted in zip(got, made.wanted, strict=True):
        found = (
            torch.from_numpy(mine).view(torch.bfloat16).float().numpy() if dtype == "bf16" else mine
        )
        np.testing.assert_allclose(
            found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * np.abs(wanted).max()
        )


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_results(name: str, cores: int) -> None:
    check(name, cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("name", ["one place", "3x3 by 2", "3x3"])
def test_types(name: str, dtype: str) -> None:
    check(name, 3, dtype)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    check("3x3, several blocks", 2, machine=machine)


# --- fusion and its cost
# ----------------------------------------------------------------


def steps(images: int, channels: int, filters: int, side: int) -> str:
    """The trace of a convolution of 3x3."""
    SHAPES["asked"] = (images, channels, filters, side, 3, 1, 1, 1)
    try:
        return program("asked").text
    finally:
        del SHAPES["asked"]


@pytest.mark.parametrize("sizes", [(16, 512, 512, 1), (16, 256, 512, 1), (8, 256, 512, 7)])
def test_a_plan_costs_what_is_charged_and_less_than_two_kernels(
    sizes: tuple[int, int, int, int],
) -> None:
    made = grouped(steps(*sizes))
    image, weights = (
        next(k for k in made.kernels if k.kind == kind) for kind in ("fold", "contraction")
    )
    found = match_conv_backward([*image.statements, *weights.statements], M7032)
    assert found is not None
    plan, one, other = (
        plan_conv_backward(found, M7032),
        estimate("fold", image.statements, M7032),
        estimate("contraction", weights.statements, M7032),
    )
    assert plan is not None and one is not None and other is not None
    profile = cycle_model.model(compiled(steps(*sizes), 8), machine="m7032", cores=8)
    (charged,) = (kernel.cycles for kernel in profile.kernels if kernel.flops)
    assert plan.cycles == pytest.approx(charged, rel=0.1)
    assert charged < 0.95 * (one + other)


def test_large_images_stay_two_kernels() -> None:
    """The windows or the gradients of both do not fit on chip together."""
    text = driver.run_from(
        "trace",
        steps(8, 64, 64, 56),
        "fuse-conv-backward",
        CompileOptions(machine="m7032", cores=8),
    )
    assert 'kind = "gradients"' not in text


def test_a_plan_counts_the_cores_of_each_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are updated by a kernel of their own: ten panels on eight cores would leave DDR
    idle in the second trip."""
    tune(monkeypatch, fuse_conv_backward="keep")
    text = steps(16, 256, 512, 1)
    (weights,) = (kernel for kernel in grouped(text).kernels if kernel.kind == "contraction")
    found = find_schedule(weights.aligned, M7032)
    assert found is not None and found.plan is not None
    profile = cycle_model.model(compiled(text, 8), machine="m7032", cores=8)
    assert found.plan.cycles == pytest.approx(
        max(kernel.cycles for kernel in profile.kernels), rel=0.05
    )
