"""Pass `fuse-conv-backward`: results, matching and plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.cost import estimate
from ftm_backend.midend.schedule.gemm.conv_backward_plan import (
    match_conv_backward,
    plan_conv_backward,
)
from ftm_backend.midend.schedule.gemm.kernel_schedule import choose_schedule
from ftm_backend.midend.schedule.gemm.operand_roles import find_schedule
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import tune
from midend.trace_builder import Program
from midend.trace_programs import M7032, after, assembly, before, check

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


def update(
    images: int,
    channels: int,
    filters: int,
    side: int,
    window: int = 3,
    stride: int = 1,
    padding: int = 1,
    dilation: int = 1,
    dtype: str = "f32",
) -> Program:
    """The gradient of an image, the momentum ``m = 0.9 m + dw``, and weights ``w - 0.1 m``."""
    program = Program(dtype)
    x = program.random(images, channels, side, side)
    w, m = (program.random(filters, channels, window, window) for _ in range(2))
    out = (side + 2 * padding - dilation * (window - 1) - 1) // stride + 1
    where = {"stride": stride, "padding": padding, "dilation": dilation}
    of_image, of_weights = program.convolution_backward(
        program.random(images, filters, out, out), x, w, (True, True), **where
    )
    m = program.call("mul.Scalar", self=m, other=program.scalar(0.9))
    m = program.add(m, of_weights)
    step = program.call("mul.Scalar", self=m, other=program.scalar(0.1))
    return program.returns(of_image, m, program.call("sub.Tensor", self=w, other=step, alpha=1))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pays wherever it is possible."""
    tune(monkeypatch, conv_transpose="col2im", fuse_conv_backward="fuse")
    monkeypatch.setattr("ftm_backend.midend.transforms.tensor.pack_operands._order", lambda *_: [])
    for user in ("fuse_ops", "kernel_builder"):
        monkeypatch.setattr(
            f"ftm_backend.midend.transforms.fusion.{user}.choose_schedule",
            lambda *given: (False, choose_schedule(*given)[1]),
        )


def run(name: str, cores: int, dtype: str = "f32", machine: str = "m7032") -> None:
    """Compile a program whose gradients are one kernel, and run it in checked mode."""
    program = update(*SHAPES[name], dtype=dtype)
    text = assembly(program, replace(presets.load(machine), cores=cores))
    kernels = text.split("@func ")[1:]
    (joined,) = [kernel for kernel in kernels if "FOLD" in kernel]
    assert sum("MM" in kernel for kernel in kernels) == 1 and "@map" in joined, "one kernel"
    check(program, text, cores, tolerance=TOLERANCE[dtype])


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_results(name: str, cores: int) -> None:
    run(name, cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("name", ["one place", "3x3 by 2", "3x3"])
def test_types(name: str, dtype: str) -> None:
    run(name, 3, dtype)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    run("3x3, several blocks", 2, machine=machine)


# --- fusion and its cost
# ----------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(16, 512, 512, 1), (16, 256, 512, 1), (8, 256, 512, 7)])
def test_a_plan_costs_what_is_charged_and_less_than_two_kernels(
    sizes: tuple[int, int, int, int],
) -> None:
    program = update(*sizes)
    made = before(program, "fuse-conv-backward")
    image, weights = (
        next(k for k in made.kernels if k.kind == kind)
        for kind in (KernelKind.COL2IM, KernelKind.CONTRACTION)
    )
    found = match_conv_backward([*image.statements, *weights.statements], M7032)
    assert found is not None
    plan, one, other = (
        plan_conv_backward(found, M7032),
        estimate(KernelKind.COL2IM, image.statements, M7032),
        estimate(KernelKind.CONTRACTION, weights.statements, M7032),
    )
    assert plan is not None and one is not None and other is not None
    profile = cycle_model.model(assembly(program), machine="m7032", cores=8)
    (charged,) = (kernel.cycles for kernel in profile.kernels if kernel.flops)
    assert plan.cycles == pytest.approx(charged, rel=0.1)
    assert charged < 0.95 * (one + other)


def test_large_images_stay_two_kernels() -> None:
    """The windows or the gradients of both do not fit on chip together."""
    kernels = after(update(8, 64, 64, 56), "fuse-conv-backward").kernels
    assert KernelKind.CONV_BACKWARD not in [kernel.kind for kernel in kernels]


def test_a_plan_counts_the_cores_of_each_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are updated by a kernel of their own: ten panels on eight cores would leave DDR
    idle in the second trip."""
    tune(monkeypatch, fuse_conv_backward="keep")
    program = update(16, 256, 512, 1)
    (weights,) = (
        kernel
        for kernel in before(program, "fuse-conv-backward").kernels
        if kernel.kind is KernelKind.CONTRACTION
    )
    found = find_schedule(weights.aligned, M7032)
    assert found is not None and found.plan is not None
    profile = cycle_model.model(assembly(program), machine="m7032", cores=8)
    assert found.plan.cycles == pytest.approx(
        max(kernel.cycles for kernel in profile.kernels), rel=0.05
    )
