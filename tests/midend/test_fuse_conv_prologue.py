"""Pass `fuse-conv-prologue`: results, DDR traffic and plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch.nn import functional

from ftm_backend import assembler, codegen, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.midend.schedule.gemm.contraction import contraction_index
from ftm_backend.midend.schedule.gemm.contraction_schedule import find_schedule
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import DTYPES, TOLERANCE, tune
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")


@dataclass(frozen=True)
class Block:
    """Two convolutions with a batch norm and an activation between them, and their backward."""

    image: tuple[int, int, int, int]
    filters: int
    window: int = 3
    second: int = 3
    stride: int = 1
    dtype: str = "f32"
    relu: bool = True
    backward: bool = True
    more: int = 3
    """Filters that the second convolution has more than the first."""
    number: float | None = None
    """In a place of the input."""

    def tensors(self) -> list[torch.Tensor]:
        """Input, weights, scale, shift, running mean and variance, second weights, and a gradient."""
        generator, dtype = torch.Generator().manual_seed(0), DTYPES[self.dtype]
        x = torch.randn(self.image, generator=generator)
        if self.number is not None:
            x[0, 0, 1, 2] = self.number
        w = (
            torch.randn(
                (self.filters, self.image[1], self.window, self.window), generator=generator
            )
            / 4
        )
        v = (
            torch.randn(
                (self.filters + self.more, self.filters, self.second, self.second),
                generator=generator,
            )
            / 4
        )
        vectors = [
            torch.rand(self.filters, generator=generator) - (0.5 if k == 1 else 0) for k in range(4)
        ]
        made = functional.conv2d(x, w, None, 1, self.window // 2)
        gradient = torch.randn(
            functional.conv2d(made, v, None, self.stride, self.second // 2).shape,
            generator=generator,
        )
        return [t.to(dtype) for t in (x, w, *vectors, v, *([gradient] if self.backward else []))]

    def reference(self) -> list[torch.Tensor]:
        """The second result; the gradients of the second weights, and of the activation's
        operand."""
        x, w, scale, shift, _, _, v, *gradients = (t.double() for t in self.tensors())
        made = functional.conv2d(x, w, None, 1, self.window // 2)
        mean, variance = (
            made.mean((0, 2, 3), keepdim=True),
            made.var((0, 2, 3), unbiased=False, keepdim=True),
        )
        z = (made - mean) * (variance + 1e-5).rsqrt() * scale[:, None, None] + shift[:, None, None]
        z = z.relu() if self.relu else z
        found = [functional.conv2d(z, v, None, self.stride, self.second // 2)]
        if self.backward:
            gradient = gradients[0] * found[0]
            found.append(
                torch.nn.grad.conv2d_weight(z, v.shape, gradient, self.stride, self.second // 2)
            )
            g = torch.nn.grad.conv2d_input(z.shape, v, gradient, self.stride, self.second // 2)
            found.append(torch.where(z <= 0, 0.0, g) if self.relu else g)
        return found

    def trace(self) -> str:
        d = self.dtype
        types = [f"{d}[{','.join(map(str, t.shape))}]" for t in self.tensors()]
        made = f"{d}[{','.join(map(str, (self.image[0], self.filters, *self.image[2:])))}]"
        result, c = f"{d}[{','.join(map(str, self.reference()[0].shape))}]", types[2]
        lines = [f"%{k} = param {t}" for k, t in enumerate(types)]
        last = len(lines)

        def words(window: int, stride: int) -> str:
            found = ", ".join(
                f"{k}=[{n},{n}]"
                for k, n in (("stride", stride), ("padding", window // 2), ("dilation", 1))
            )
            return f"{found}, transposed=false, output_padding=[0,0], groups=1"

        lines.append(
            f"%{last} = aten::convolution(input=%0, weight=%1, bias=none, {words(self.window, 1)}) : {made}"
        )
        results = ", ".join(f"%{last + k}" for k in range(1, 6))
        lines.append(
            f"{results} = aten::_native_batch_norm_legit_functional(input=%{last}, weight=%2, bias=%3, running_mean=%4, "
            f"running_var=%5, training=true, momentum=0.1, eps=1e-05) : {made}, {c}, {c}, {c}, {c}"
        )
        image, following = last + 1, last + 6
        if self.relu:
            lines.append(f"%{following} = aten::relu(self=%{image}) : {made}")
            image, following = following, following + 1
        lines.append(
            f"%{following} = aten::convolution(input=%{image}, weight=%6, bias=none, {words(self.second, self.stride)}) : {result}"
        )
        returned = [following]
        if self.backward:
            lines.append(
                f"%{following + 1} = aten::mul.Tensor(self=%{following}, other=%7) : {result}"
            )
            first = following + 2
            lines.append(
                f"%{first}, %{first + 1}, %{first + 2} = aten::convolution_backward(grad_output=%{following + 1}, input=%{image}, weight=%6, "
                f"bias_sizes=[0], {words(self.second, self.stride)}, output_mask=[true,true,false]) : {made}, {types[6]}, none"
            )
            if self.relu:
                lines.append(
                    f"%{first + 3} = aten::threshold_backward(grad_output=%{first}, self=%{image}, threshold=0) : {made}"
                )
            returned += [first + 1, first + 3 if self.relu else first]
        lines.append("return " + ", ".join(f"%{k}" for k in returned))
        return "trace\n  " + "\n  ".join(lines) + "\n"


def planned(block: Block, machine: presets.MachineParameters = M7032) -> KernelProgram:
    """The program before its kernels are lowered."""
    text = driver.run_from("trace", block.trace(), "linalg", CompileOptions(machine=machine.name))
    value = pipeline.LINALG.read(text, machine)
    for step in pipeline.pipeline(machine)[:-1]:
        value = step.run(value, machine)
    assert isinstance(value, KernelProgram)
    return value


def compiled(program: KernelProgram) -> str:
    machine = program.kernels[0].machine
    return str(codegen.pipeline.run(pipeline.PASSES[-1].run(program, machine), machine))


def check(block: Block, text: str, cores: int) -> None:
    with Machine(cores=cores, checked=True) as emulator:
        got = emulator.load(assembler.assemble(text)).run(
            [to_numpy(t) for t in block.tensors()], []
        )
    for number, (result, wanted) in enumerate(zip(got, block.reference(), strict=True)):
        tolerance = (
            40 * TOLERANCE[block.dtype] * max(float(wanted.nan_to_num(0, 0, 0).abs().max()), 1.0)
        )
        seen = from_numpy(result, DTYPES[block.dtype]).double()
        torch.testing.assert_close(
            seen,
            wanted,
            rtol=0,
            atol=tolerance,
            equal_nan=True,
            msg=lambda text, at=number: f"result {at}: {text}",
        )


BLOCKS = {
    "3x3": Block((3, 16, 24, 24), 24),
    "odd": Block((3, 5, 12, 11), 21),
    "several blocks": Block((8, 20, 28, 28), 70),
    "one place": Block((2, 12, 16, 16), 40, second=1),
    "5x5": Block((2, 8, 20, 20), 16, second=5),
    "by 2": Block((2, 8, 20, 18), 16, stride=2),
    "one image": Block((1, 8, 20, 20), 16),
    "no activation": Block((3, 16, 16, 16), 24, relu=False),
    "forward": Block((3, 16, 24, 24), 24, backward=False),
    "two groups of columns": Block((8, 16, 28, 28), 128, more=0, backward=False),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It always pays."""
    tune(monkeypatch, fuse_conv_prologue="fuse")


def image_is_made(program: KernelProgram) -> bool:
    """Whether a kernel stores the second convolution's input."""
    return not any(kernel.kind == "computed" for kernel in program.kernels)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", BLOCKS)
def test_results(name: str) -> None:
    program = planned(BLOCKS[name])
    assert not image_is_made(program)
    text = compiled(program)
    for cores in (1, 2, 3, 7, 8):
        check(BLOCKS[name], text, cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 3])
def test_planned_for_fewer_cores(cores: int) -> None:
    check(BLOCKS["3x3"], compiled(planned(BLOCKS["3x3"], replace(M7032, cores=cores))), cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["3x3", "one place"])
def test_of_doubles(name: str) -> None:
    block = replace(BLOCKS[name], dtype="f64")
    check(block, compiled(planned(block)), 8)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_none(number: float) -> None:
    """All elements of the channels are NaN; the border stays zero."""
    block = replace(BLOCKS["3x3"], number=number, backward=False)
    check(block, compiled(planned(block)), 8)


def test_a_network_of_large_images_pays() -> None:
    """No kernel stores the feature map, and estimates hold."""
    program = planned(Block((8, 64, 56, 56), 64, more=0))
    (image,) = (k.outputs[0].shape for k in program.kernels if k.kind == "summed")
    # both results and their gradients
    assert sum(value.shape == image for kernel in program.kernels for value in kernel.outputs) == 4
    charged = {
        k.name: k.cycles
        for k in cycle_model.model(compiled(program), machine="m7032", cores=8).kernels
    }
    computed = [function for function in program.functions if function.kernel.kind == "computed"]
    assert len(computed) == 2
    for function in computed:
        kernel = function.kernel
        chosen = find_schedule(
            kernel.aligned, M7032, kernel.statements[: contraction_index(kernel.statements)]
        )
        assert chosen is not None and chosen.plan is not None
        assert 0.95 <= chosen.plan.cycles / charged[function.name] <= 1.05
