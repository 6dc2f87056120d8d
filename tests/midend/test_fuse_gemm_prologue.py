"""Pass `fuse-gemm-prologue` through the whole compiler and the checked emulator.

Results are compared with PyTorch on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from ftm_backend import assembler, codegen, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.midend.schedule.gemm.contraction_schedule import find_schedule
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import DTYPES, TOLERANCE, tune
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")


@dataclass(frozen=True)
class Product:
    """A factor ``p * scale - q`` of a product with ``x``.

    op: ``mm``: [m, k] times [k, n], ``tn``: of [k, m] transposed, ``nt``: times [n, k] transposed;
    ``weights``: the gradient of the weights of a convolution of ``image`` that the factor is the
    gradient of the result of; ``windows``: a convolution of the factor, by ``x``. second: the
    factor is the right one.
    """

    op: str
    factor: tuple[int, ...]
    x: tuple[int, ...]
    kernel: int = 3
    stride: int = 1
    dtype: str = "f32"

    @property
    def scale(self) -> tuple[int, ...]:
        """Of the factor's dimension 1: channels, or columns."""
        return (1, self.factor[1], 1, 1) if self.op in ("weights", "windows") else (self.factor[1],)

    @property
    def weights(self) -> tuple[int, ...]:
        """Their shape."""
        return (self.factor[1], self.x[1], self.kernel, self.kernel)

    def inputs(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        shapes: Sequence[tuple[int, ...]] = (self.factor, self.scale, self.factor, self.x)
        if self.op == "weights":
            shapes = (*shapes, self.weights)
        return [
            torch.randint(-4, 4, shape, generator=generator).to(DTYPES[self.dtype])
            for shape in shapes
        ]

    def reference(self) -> torch.Tensor:
        p, scale, q, x = (each.double() for each in self.inputs()[:4])
        made = p * scale - q
        if self.op == "weights":
            return torch.nn.grad.conv2d_weight(
                x, self.weights, made, stride=self.stride, padding=self.kernel // 2
            )
        if self.op == "windows":
            return torch.nn.functional.conv2d(made, x, stride=self.stride)
        return {
            "mm": lambda: made @ x,
            "tn": lambda: made.T @ x,
            "nt": lambda: made @ x.T,
            "second": lambda: x @ made,
        }[self.op]()

    def trace(self) -> str:
        d = self.dtype
        factor, scale, x, result = (
            f"{d}[{','.join(map(str, s))}]"
            for s in (self.factor, self.scale, self.x, self.reference().shape)
        )
        lines = [f"param {factor}", f"param {scale}", f"param {factor}", f"param {x}"]
        weights = f"{d}[{','.join(map(str, self.weights))}]"
        if self.op == "weights":
            lines.append(f"param {weights}")
        made = len(lines) + 1
        lines += [
            f"aten::mul.Tensor(self=%0, other=%1) : {factor}",
            f"aten::sub.Tensor(self=%{made - 1}, other=%2, alpha=1) : {factor}",
        ]
        if self.op == "weights":
            words = ", ".join(
                f"{key}=[{n},{n}]"
                for key, n in (
                    ("stride", self.stride),
                    ("padding", self.kernel // 2),
                    ("dilation", 1),
                )
            )
            words += (
                ", transposed=false, output_padding=[0,0], groups=1, output_mask=[false,true,false]"
            )
            lines.append(
                f"aten::convolution_backward(grad_output=%{made}, input=%3, weight=%4, bias_sizes=[0], {words}) : none, {weights}, none"
            )
        elif self.op == "windows":
            words = f"stride=[{self.stride},{self.stride}], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1"
            lines.append(
                f"aten::convolution(input=%{made}, weight=%3, bias=none, {words}) : {result}"
            )
        else:
            factors = [made, 3]
            if self.op in ("tn", "nt"):
                rows, columns = self.factor if self.op == "tn" else self.x
                base, factors[self.op == "nt"] = factors[self.op == "nt"], made + 1
                lines.append(
                    f"ftm.view(base=%{base}, sizes=[{columns},{rows}], strides=[1,{columns}], offset=0) : {d}[{columns},{rows}]"
                )
            left, right = factors[::-1] if self.op == "second" else factors
            lines.append(f"aten::mm(self=%{left}, mat2=%{right}) : {result}")
        numbered = [f"%{k} = {line}" for k, line in enumerate(lines)]
        returned = f"%{len(lines) - 1}"
        if self.op == "weights":
            returned = f"%{len(lines)}"
            numbered[-1] = numbered[-1].replace(
                f"%{len(lines) - 1} =", f"%{len(lines) - 1}, %{len(lines)}, %{len(lines) + 1} =", 1
            )
        return "trace\n  " + "\n  ".join([*numbered, f"return {returned}"]) + "\n"


def planned(
    product: Product, cores: int, machine: presets.MachineParameters = M7032
) -> KernelProgram:
    """The program before its kernels are lowered."""
    machine = replace(machine, cores=cores)
    value = pipeline.LINALG.read(
        driver.run_from(
            "trace", product.trace(), "linalg", CompileOptions(machine="m7032", cores=cores)
        ),
        machine,
    )
    for step in pipeline.pipeline(machine)[:-1]:
        value = step.run(value, machine)
    assert isinstance(value, KernelProgram)
    return value


def compiled(program: KernelProgram) -> str:
    machine = program.kernels[0].machine
    return str(codegen.pipeline.run(pipeline.PASSES[-1].run(program, machine), machine))


def check(product: Product, text: str, cores: int) -> None:
    with Machine(cores=cores, checked=True) as emulator:
        (got,) = emulator.load(assembler.assemble(text)).run(
            [to_numpy(t) for t in product.inputs()], []
        )
    wanted = product.reference()
    tolerance = TOLERANCE[product.dtype] * max(float(wanted.abs().max()), 1.0)
    torch.testing.assert_close(
        from_numpy(np.asarray(got), DTYPES[product.dtype]).double(), wanted, rtol=0, atol=tolerance
    )


CASES = {
    "as it lies": Product("mm", (200, 300), (300, 130)),
    "transposed": Product("tn", (301, 77), (301, 150)),
    "of a transposed one": Product("nt", (65, 258), (141, 258)),
    "the second one": Product("second", (190, 97), (83, 190)),
    "weights": Product("weights", (2, 20, 23, 21), (2, 5, 23, 21)),
    "a network's first weights": Product(
        "weights", (3, 64, 28, 28), (3, 3, 56, 56), kernel=7, stride=2
    ),
    "windows": Product("windows", (3, 12, 33, 31), (24, 12, 3, 3)),
    "windows by 2": Product("windows", (3, 9, 38, 36), (40, 9, 5, 5), stride=2),
    "weights of one tap": Product("weights", (2, 33, 17, 19), (2, 18, 17, 19), kernel=1),
}


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_every_factor(name: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, fuse_gemm_prologue="fuse")
    program = planned(CASES[name], cores)
    assert any(kernel.kind == "computed" for kernel in program.kernels) == (cores > 1)
    text = compiled(program)
    for count in {cores, 3}:
        check(CASES[name], text, count)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["transposed", "a network's first weights"])
def test_every_type(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, fuse_gemm_prologue="fuse")
    product = replace(CASES[name], dtype=dtype)
    check(product, compiled(planned(product, 3)), 3)


@pytest.mark.parametrize("kilobytes", [40, 96])
@pytest.mark.parametrize("name", CASES)
def test_small_scratchpads(name: str, kilobytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, fuse_gemm_prologue="fuse")
    check(
        CASES[name], compiled(planned(CASES[name], 3, replace(M7032, am_bytes=kilobytes * 1024))), 3
    )


def test_a_network_s_first_weights_pay() -> None:
    """In one kernel, whose estimate the cycle model agrees with."""
    product = Product("weights", (8, 64, 112, 112), (8, 3, 224, 224), kernel=7, stride=2)
    program = planned(product, 8)
    assert program.kernels[0].kind == "computed"
    (kernel,) = [k for k in program.kernels if k.kind == "computed"]
    plan = find_schedule(kernel.aligned, kernel.machine, kernel.statements[:-1]).plan
    text = compiled(program)
    (charged,) = [
        k.cycles
        for k in cycle_model.model(text, machine="m7032", cores=8).kernels
        if k.name.endswith("_0")
    ]
    assert 0.9 <= plan.cycles / charged <= 1.1
