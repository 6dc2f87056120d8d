"""Pass `fuse-gemm-reduction`: batch statistics as partial sums of a convolution's blocks.

Tests check results and DDR traffic.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.gemm.operand_roles import find_schedule
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend.harness import TOLERANCE, tune
from midend.trace_builder import Program
from midend.trace_programs import M7032, check, lowered, planned


def layer(
    image: tuple[int, int, int, int],
    filters: int,
    window: int = 3,
    stride: int = 1,
    bias: bool = False,
    relu: bool = False,
    offset: float = 0.0,
    number: float | None = None,
    normalized: bool = False,
    dtype: str = "f32",
) -> Program:
    """A convolution and a batch norm.

    Args:
        image: Shape of the input.
        filters: Of the convolution.
        window: Of the convolution.
        stride: Of the convolution.
        bias: Whether the convolution has a bias.
        relu: Whether an activation comes before the norm.
        offset: Of the bias: how far from zero the elements are.
        number: In a place of the input.
        normalized: Whether the normalized feature map is a result.
        dtype: The type of elements.
    """
    program = Program(dtype)
    x = program.random(*image)
    if number is not None:
        x.exact[0, 0, 1, 2] = number
    w = program.random(filters, image[1], window, window)
    w = program.parameter(w.exact / math.sqrt(image[1]))
    shift = program.parameter(program.random(filters).exact + offset) if bias else None
    made = program.convolution(x, w, shift, stride=stride, padding=window // 2)
    made = program.relu(made) if relu else made
    norm = program.batch_norm(made, [program.random(filters) for _ in range(4)])
    return program.returns(*norm[:1] * normalized, made, *norm[1:])


def product(program: Program) -> Kernel:
    """The kernel of the convolution."""
    return next(
        k
        for k in planned(program).kernels
        if k.kind in (KernelKind.CONTRACTION, KernelKind.CONTRACTION_WITH_REDUCTION)
    )


def run(program: Program, cores: int, machine: MachineParameters = M7032) -> None:
    """Compile for all cores of a machine and run on some of them."""
    text = lowered(planned(program, machine))
    check(program, text, cores, tolerance=20 * TOLERANCE[program.dtype])


LAYERS: dict[str, dict[str, Any]] = {
    "a network's first": {"image": (2, 3, 48, 48), "filters": 32, "window": 7, "stride": 2},
    "3x3": {"image": (3, 16, 24, 24), "filters": 24},
    "odd": {"image": (3, 5, 13, 11), "filters": 21},
    "one place": {"image": (2, 12, 16, 16), "filters": 40, "window": 1},
    "one place by 2": {"image": (2, 12, 17, 15), "filters": 40, "window": 1, "stride": 2},
    "several blocks": {"image": (8, 20, 32, 32), "filters": 150},
    "one image": {"image": (1, 8, 20, 20), "filters": 16},
    "bias": {"image": (3, 16, 24, 24), "filters": 24, "bias": True},
    "bias and activation": {
        "image": (3, 16, 24, 24), "filters": 24, "bias": True, "relu": True,
    },
    "one filter": {"image": (3, 16, 24, 24), "filters": 1},
}  # fmt: skip


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It always pays."""
    tune(monkeypatch, fuse_gemm_reduction="fuse")


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", LAYERS)
def test_results(name: str, cores: int) -> None:
    run(layer(**LAYERS[name]), cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("name", ["a network's first", "one place"])
def test_types(name: str, dtype: str) -> None:
    """Of types that are summed wider, kernels of their own take the statistics."""
    program = layer(**LAYERS[name], dtype=dtype)
    assert product(program).kind is (
        KernelKind.CONTRACTION_WITH_REDUCTION if dtype == "f64" else KernelKind.CONTRACTION
    )
    if dtype == "f64":
        run(program, 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 8])
def test_elements_far_from_zero_keep_their_variance(cores: int) -> None:
    """Squares are of the deviations from the mean of a part."""
    program = layer(**LAYERS["bias"], offset=1000.0)
    assert product(program).kind is KernelKind.CONTRACTION_WITH_REDUCTION
    text = lowered(planned(program))
    check(program, text, cores, tolerance=200 * TOLERANCE["f32"])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none(number: float) -> None:
    """Variances become NaN, as those of all elements do."""
    run(layer(**LAYERS["3x3"], number=number), 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    run(layer(**LAYERS["3x3"]), 2, presets.load(machine))


def test_a_network_of_large_images_takes_statistics_of_its_first_layer_there() -> None:
    """And the kernel takes the time that was planned."""
    program = planned(layer((8, 3, 224, 224), 64, window=7, stride=2))
    (kernel,) = (k for k in program.kernels if k.kind is KernelKind.CONTRACTION_WITH_REDUCTION)
    found = find_schedule(kernel.aligned, M7032, sums=2)
    assert found is not None and found.plan is not None
    profile = cycle_model.model(lowered(program), machine="m7032", cores=8)
    charged = max(k.cycles for k in profile.kernels)
    assert found.plan.cycles == pytest.approx(charged, rel=0.05)


def test_what_is_normalized_where_it_is_summed_is_read_once() -> None:
    """A kernel that holds all of a channel sums it without reading it for that."""
    program = planned(layer(**LAYERS["3x3"], normalized=True))
    assert not any(k.kind is KernelKind.CONTRACTION_WITH_REDUCTION for k in program.kernels)
