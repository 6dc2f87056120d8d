"""Pass `fuse-gemm-reduction`: batch statistics as partial sums of a convolution's blocks.

Tests check results and DDR traffic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch.nn import functional

from emulation import run_assembly
from ftm_backend import codegen, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.midend.schedule.gemm.contraction_schedule import find_schedule
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import DTYPES, TOLERANCE, tune
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")


@dataclass(frozen=True)
class Layer:
    """A convolution and a batch norm; all results except the normalized feature map."""

    image: tuple[int, int, int, int]
    filters: int
    window: int = 3
    stride: int = 1
    dtype: str = "f32"
    bias: bool = False
    relu: bool = False
    offset: float = 0.0
    """Of the bias: how far from zero the elements are."""
    number: float | None = None
    """In a place of the input."""

    def tensors(self) -> list[torch.Tensor]:
        """Image, weights, running mean and variance, scale and shift, and the convolution's
        bias."""
        generator, dtype = torch.Generator().manual_seed(0), DTYPES[self.dtype]
        x = torch.randn(self.image, generator=generator)
        if self.number is not None:
            x[0, 0, 1, 2] = self.number
        w = torch.randn(
            (self.filters, self.image[1], self.window, self.window), generator=generator
        ) / math.sqrt(self.image[1])
        vectors = [torch.rand(self.filters, generator=generator) for _ in range(5)]
        vectors[4] += self.offset
        return (
            [t.to(dtype) for t in (x, w, *vectors[4:], *vectors[:4])]
            if self.bias
            else [t.to(dtype) for t in (x, w, *vectors[:4])]
        )

    def reference(self) -> list[torch.Tensor]:
        x, w, *others = (t.double() for t in self.tensors())
        bias = others.pop(0) if self.bias else None
        _, _, mean, variance = others
        made = functional.conv2d(x, w, bias, self.stride, self.window // 2)
        made = made.relu() if self.relu else made
        found_mean, found = made.mean((0, 2, 3)), made.var((0, 2, 3), unbiased=False)
        count = made.numel() / self.filters
        return [
            made,
            found_mean,
            (found + 1e-5).rsqrt(),
            0.9 * mean + 0.1 * found_mean,
            0.9 * variance + 0.1 * found * count / (count - 1),
        ]

    def trace(self) -> str:
        d = self.dtype
        types = [f"{d}[{','.join(map(str, t.shape))}]" for t in self.tensors()]
        made = f"{d}[{','.join(map(str, self.reference()[0].shape))}]"
        first = 3 if self.bias else 2
        words = ", ".join(
            f"{k}=[{n},{n}]"
            for k, n in (("stride", self.stride), ("padding", self.window // 2), ("dilation", 1))
        )
        bias = "%2" if self.bias else "none"
        lines = [f"%{k} = param {t}" for k, t in enumerate(types)]
        last = len(lines)
        lines.append(
            f"%{last} = aten::convolution(input=%0, weight=%1, bias={bias}, {words}, transposed=false, output_padding=[0,0], groups=1) : {made}"
        )
        if self.relu:
            lines.append(f"%{last + 1} = aten::relu(self=%{last}) : {made}")
            last += 1
        c = types[-1]
        results = ", ".join(f"%{last + k}" for k in range(1, 6))
        lines.append(
            f"{results} = aten::_native_batch_norm_legit_functional(input=%{last}, weight=%{first}, bias=%{first + 1}, "
            f"running_mean=%{first + 2}, running_var=%{first + 3}, training=true, momentum=0.1, eps=1e-05) : {made}, {c}, {c}, {c}, {c}"
        )
        lines.append(f"return %{last}, " + ", ".join(f"%{last + k}" for k in range(2, 6)))
        return "trace\n  " + "\n  ".join(lines) + "\n"


def planned(layer: Layer, machine: presets.MachineParameters = M7032) -> KernelProgram:
    """The program before its kernels are lowered."""
    text = driver.run_from("trace", layer.trace(), "linalg", CompileOptions(machine=machine.name))
    value = pipeline.LINALG.read(text, machine)
    for step in pipeline.pipeline(machine)[:-1]:
        value = step.run(value, machine)
    assert isinstance(value, KernelProgram)
    return value


def product(layer: Layer) -> Kernel:
    """The kernel of the convolution."""
    return next(k for k in planned(layer).kernels if k.kind in ("contraction", "summed"))


def check(layer: Layer, cores: int, machine: presets.MachineParameters = M7032) -> None:
    """Compile for all cores of a machine and run on some of them."""
    text = str(
        codegen.pipeline.run(pipeline.PASSES[-1].run(planned(layer, machine), machine), machine)
    )
    got = run_assembly(text, [to_numpy(t) for t in layer.tensors()], cores=cores)
    for number, (result, wanted) in enumerate(zip(got, layer.reference(), strict=True)):
        tolerance = 20 * TOLERANCE[layer.dtype] * (10 if layer.offset and number == 2 else 1)
        seen = from_numpy(result, DTYPES[layer.dtype]).double()
        torch.testing.assert_close(
            seen,
            wanted,
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            msg=lambda text, at=number: f"result {at}: {text}",
        )


LAYERS = {
    "a network's first": Layer((2, 3, 48, 48), 32, window=7, stride=2),
    "3x3": Layer((3, 16, 24, 24), 24),
    "odd": Layer((3, 5, 13, 11), 21),
    "one place": Layer((2, 12, 16, 16), 40, window=1),
    "one place by 2": Layer((2, 12, 17, 15), 40, window=1, stride=2),
    "several blocks": Layer((8, 20, 32, 32), 150),
    "one image": Layer((1, 8, 20, 20), 16),
    "bias": Layer((3, 16, 24, 24), 24, bias=True),
    "bias and activation": Layer((3, 16, 24, 24), 24, bias=True, relu=True),
    "one filter": Layer((3, 16, 24, 24), 1),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It always pays."""
    tune(monkeypatch, fuse_gemm_reduction="fuse")


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", LAYERS)
def test_results(name: str, cores: int) -> None:
    check(LAYERS[name], cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("name", ["a network's first", "one place"])
def test_types(name: str, dtype: str) -> None:
    """Of types that are summed wider, kernels of their own take the statistics."""
    layer = replace(LAYERS[name], dtype=dtype)
    if dtype == "f64":
        assert product(layer).kind == "summed"
        check(layer, 3)
    else:
        assert product(layer).kind == "contraction"


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 8])
def test_elements_far_from_zero_keep_their_variance(cores: int) -> None:
    """Squares are of the deviations from the mean of a part."""
    layer = replace(LAYERS["bias"], offset=1000.0)
    assert product(layer).kind == "summed"
    check(layer, cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none(number: float) -> None:
    """Variances become NaN, as those of all elements do."""
    check(replace(LAYERS["3x3"], number=number), 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    check(LAYERS["3x3"], 2, presets.load(machine))


def test_a_network_of_large_images_takes_statistics_of_its_first_layer_there() -> None:
    """And the kernel takes the time that was planned."""
    layer = Layer((8, 3, 224, 224), 64, window=7, stride=2)
    program = planned(layer)
    (kernel,) = (k for k in program.kernels if k.kind == "summed")
    found = find_schedule(kernel.aligned, M7032, sums=2)
    assert found is not None and found.plan is not None
    text = str(codegen.pipeline.run(pipeline.PASSES[-1].run(program, M7032), M7032))
    charged = max(k.cycles for k in cycle_model.model(text, machine="m7032", cores=8).kernels)
    assert found.plan.cycles == pytest.approx(charged, rel=0.05)


def test_what_is_normalized_where_it_is_summed_is_read_once() -> None:
    """A kernel that holds all of a channel sums it without reading it for that."""
    layer = LAYERS["3x3"]
    text = layer.trace()
    text = text.replace("return %6, ", "return %7, %6, ")
    linalg = driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032", cores=8))
    value = pipeline.LINALG.read(linalg, M7032)
    for step in pipeline.pipeline(M7032)[:-1]:
        value = step.run(value, M7032)
    assert not any(k.kind == "summed" for k in value.kernels)
