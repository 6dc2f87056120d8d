"""Pass `fuse-conv-prologue`: results, DDR traffic and plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.midend.schedule.gemm.contraction import contraction_index
from ftm_backend.midend.schedule.gemm.operand_roles import find_schedule
from ftm_backend.perf_model import cycle_model
from midend.harness import TOLERANCE, tune
from midend.trace_builder import Program
from midend.trace_programs import M7032, check, lowered, planned


def block(
    image: tuple[int, int, int, int],
    filters: int,
    second: int = 3,
    stride: int = 1,
    relu: bool = True,
    backward: bool = True,
    more: int = 3,
    number: float | None = None,
    dtype: str = "f32",
) -> Program:
    """Two convolutions with a batch norm and an activation between them, and their backward.

    Results are the second convolution's, the gradient of its weights, and that of the activation's
    operand.

    Args:
        image: Shape of the input.
        filters: Of the first convolution.
        second: Window of the second convolution.
        stride: Of the second convolution.
        relu: Whether there is an activation.
        backward: Whether there are gradients.
        more: Filters that the second convolution has more than the first.
        number: In a place of the input.
        dtype: The type of elements.
    """
    program = Program(dtype)
    x = program.random(*image)
    if number is not None:
        x.exact[0, 0, 1, 2] = number
    w, v = (
        program.parameter(program.random(*shape).exact / 4)
        for shape in ((filters, image[1], 3, 3), (filters + more, filters, second, second))
    )
    made = program.convolution(x, w, padding=1)
    vectors = [program.random(filters) for _ in range(4)]
    image_made = program.batch_norm(made, vectors)[0]
    z = program.relu(image_made) if relu else image_made
    where = {"stride": stride, "padding": second // 2}
    result = program.convolution(z, v, **where)
    if not backward:
        return program.returns(result)
    gradient = program.call("mul.Tensor", self=result, other=program.random(*result.shape))
    of_z, of_v = program.convolution_backward(gradient, z, v, (True, True), **where)
    return program.returns(result, of_v, program.relu_backward(of_z, z) if relu else of_z)


BLOCKS: dict[str, dict[str, Any]] = {
    "3x3": {"image": (3, 16, 24, 24), "filters": 24},
    "odd": {"image": (3, 5, 12, 11), "filters": 21},
    "several blocks": {"image": (8, 20, 28, 28), "filters": 70},
    "one place": {"image": (2, 12, 16, 16), "filters": 40, "second": 1},
    "5x5": {"image": (2, 8, 20, 20), "filters": 16, "second": 5},
    "by 2": {"image": (2, 8, 20, 18), "filters": 16, "stride": 2},
    "one image": {"image": (1, 8, 20, 20), "filters": 16},
    "no activation": {"image": (3, 16, 16, 16), "filters": 24, "relu": False},
    "forward": {"image": (3, 16, 24, 24), "filters": 24, "backward": False},
    "two groups of columns": {
        "image": (8, 16, 28, 28), "filters": 128, "more": 0, "backward": False,
    },
}  # fmt: skip


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It always pays."""
    tune(monkeypatch, fuse_conv_prologue="fuse")


def run(program: Program, kernels: KernelProgram, *cores: int) -> None:
    check(program, lowered(kernels), *cores, tolerance=40 * TOLERANCE[program.dtype])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", BLOCKS)
def test_results(name: str) -> None:
    program = block(**BLOCKS[name])
    kernels = planned(program)
    assert any(kernel.kind is KernelKind.CONTRACTION_WITH_PROLOGUE for kernel in kernels.kernels), (
        "no image is stored"
    )
    run(program, kernels, 1, 2, 3, 7, 8)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 3])
def test_planned_for_fewer_cores(cores: int) -> None:
    program = block(**BLOCKS["3x3"])
    run(program, planned(program, replace(M7032, cores=cores)), cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["3x3", "one place"])
def test_of_doubles(name: str) -> None:
    program = block(**BLOCKS[name], dtype="f64")
    run(program, planned(program), 8)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_none(number: float) -> None:
    """All elements of the channels are NaN; the border stays zero."""
    program = block(**BLOCKS["forward"], number=number)
    run(program, planned(program), 8)


def test_a_network_of_large_images_pays() -> None:
    """No kernel stores the feature map, and estimates hold."""
    program = planned(block((8, 64, 56, 56), 64, more=0))
    (image,) = (
        k.outputs[0].shape
        for k in program.kernels
        if k.kind is KernelKind.CONTRACTION_WITH_REDUCTION
    )
    # both results and their gradients
    assert sum(value.shape == image for kernel in program.kernels for value in kernel.outputs) == 4
    charged = {
        k.name: k.cycles
        for k in cycle_model.model(lowered(program), machine="m7032", cores=8).kernels
    }
    computed = [
        function
        for function in program.functions
        if function.kernel.kind is KernelKind.CONTRACTION_WITH_PROLOGUE
    ]
    assert len(computed) == 2
    for function in computed:
        kernel = function.kernel
        chosen = find_schedule(
            kernel.aligned, M7032, kernel.statements[: contraction_index(kernel.statements)]
        )
        assert chosen is not None and chosen.plan is not None
        assert 0.95 <= chosen.plan.cycles / charged[function.name] <= 1.05
