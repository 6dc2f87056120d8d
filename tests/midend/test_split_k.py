"""Pass `split-k`: which products are split, and that results stay right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.nn import functional

from ftm_backend import assembler, codegen, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Statement
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.schedule.gemm import panel_search
from ftm_backend.midend.transforms.tensor import split_k as cutting
from ftm_backend.midend.transforms.tensor.split_k import split_k
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import DTYPES
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")
TOLERANCE = {"f32": 1e-4, "f64": 1e-11, "f16": 4e-3, "bf16": 3e-2}


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable split-k of kernels, so that only the pass splits sums."""
    monkeypatch.setattr(panel_search, "split_plan", lambda *_: None)
    panel_search.panel_schedule.cache_clear()
    yield
    panel_search.panel_schedule.cache_clear()


def product(m: int, n: int, k: int, layout: str = "NN", dtype: str = "f32") -> str:
    """The trace of ``a @ b``; T: the operand lies transposed."""
    lines = ["trace", f"  %0 = param {dtype}[{m * k}]", f"  %1 = param {dtype}[{k * n}]"]
    for number, (rows, columns, side) in enumerate(((m, k, layout[0]), (k, n, layout[1]))):
        steps = f"1,{rows}" if side == "T" else f"{columns},1"
        form = f"{dtype}[{rows},{columns}]"
        lines.append(
            f"  %{2 + number} = ftm.view(base=%{number}, sizes=[{rows},{columns}], strides=[{steps}], offset=0) : {form}"
        )
    return "\n".join(
        [*lines, f"  %4 = aten::mm(self=%2, mat2=%3) : {dtype}[{m},{n}]", "  return %4", ""]
    )


def weight(
    images: int,
    channels: int,
    filters: int,
    side: int,
    window: int,
    stride: int = 1,
    dtype: str = "f32",
) -> str:
    """The trace of the gradient of a convolution's weight."""
    out = (side - 1) // stride + 1
    x, y, w = (
        f"{dtype}[{','.join(map(str, shape))}]"
        for shape in (
            (images, channels, side, side),
            (images, filters, out, out),
            (filters, channels, window, window),
        )
    )
    p = window // 2
    return (
        f"trace\n  %0 = param {y}\n  %1 = param {x}\n  %2 = param {w}\n"
        f"  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, stride=[{stride},{stride}], "
        f"padding=[{p},{p}], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, "
        f"output_mask=[false,true,false]) : none, {w}, none\n  return %4\n"
    )


def parts(text: str, machine: presets.MachineParameters = M7032) -> list[int]:
    """Into how many parts the pass cuts each product that it cuts."""
    function = pipeline.LINALG.read(
        driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032")), machine
    )
    before = [item for item in function.body if isinstance(item, Statement)]
    split_k(function, machine)
    return [
        item.loops[0]
        for item in function.body
        if isinstance(item, Statement) and item not in before and len(item.operands) == 2
    ]


def run(
    text: str, arrays: list[np.ndarray], cores: int, machine: presets.MachineParameters = M7032
) -> np.ndarray:
    linalg = driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032"))
    program = codegen.pipeline.run(
        pipeline.run(pipeline.LINALG.read(linalg, machine), machine), machine
    )
    with Machine(cores=cores, checked=True) as emulator:
        (got,) = emulator.load(assembler.assemble(program)).run(arrays, [])
    return got


def test_small_results_of_long_sums_are_cut() -> None:
    assert parts(weight(16, 3, 64, 224, 7, 2)) == [8]
    assert parts(weight(16, 64, 64, 56, 3))[0] > 1
    assert parts(weight(16, 64, 128, 56, 1, 2))[0] > 1


def test_other_products_stay_whole() -> None:
    assert not parts(product(1024, 1024, 1024))
    assert not parts(product(4096, 64, 64))
    assert not parts(weight(16, 512, 512, 7, 3))
    assert not parts(product(64, 64, 9973, "TN")), "nothing divides the sum evenly"
    assert not parts(product(33, 90, 24576, "NT")), "DMA takes the same time either way"


PRODUCTS = {"NN": (48, 40, 16384), "TN": (31, 66, 16384), "TT": (64, 31, 16000)}


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("layout", PRODUCTS)
def test_products(layout: str, cores: int) -> None:
    m, n, k = PRODUCTS[layout]
    text = product(m, n, k, layout)
    assert parts(text)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    held = [
        np.ascontiguousarray(x.T if side == "T" else x).ravel()
        for x, side in zip((a, b), layout, strict=True)
    ]
    np.testing.assert_array_equal(run(text, held, cores), a @ b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize(
    "shape", [(8, 3, 20, 61, 7, 2), (8, 20, 17, 41, 3, 1), (16, 32, 64, 56, 1, 2)], ids=str
)
def test_gradients_of_weights(shape: tuple[int, ...], cores: int, dtype: str) -> None:
    assert parts(weight(*shape, dtype))
    gradients(shape, cores, dtype)


def gradients(shape: tuple[int, ...], cores: int, dtype: str) -> None:
    """Compares the gradient of a convolution's weights with the CPU's."""
    images, channels, filters, side, window, stride = shape
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn((images, channels, side, side), generator=generator) / 8).to(DTYPES[dtype])
    w = torch.zeros((filters, channels, window, window), dtype=torch.float64, requires_grad=True)
    made = functional.conv2d(x.double(), w, None, stride, window // 2)
    grad = (torch.randn(made.shape, generator=generator) / 8).to(DTYPES[dtype])
    (wanted,) = torch.autograd.grad(made, w, grad.double())
    got = from_numpy(
        run(
            weight(*shape, dtype),
            [to_numpy(grad), to_numpy(x), to_numpy(w.to(DTYPES[dtype]))],
            cores,
        ),
        DTYPES[dtype],
    ).double()
    torch.testing.assert_close(
        got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * wanted.abs().max().item()
    )


@pytest.mark.parametrize(
    ("row", "share"),
    [((16, 3, 64, 224, 7, 2), 2.0), ((16, 64, 64, 56, 3), 1.05), ((16, 64, 128, 56, 1, 2), 1.2)],
)
def test_it_pays(row: tuple[int, ...], share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def modelled() -> float:
        text = driver.run_from(
            "trace", weight(*row), "asm", CompileOptions(machine="m7032", cores=8)
        )
        return cycle_model.model(text, machine="m7032", cores=8).cycles

    cut = modelled()
    monkeypatch.setattr("ftm_backend.midend.transforms.tensor.split_k._promising", lambda *_: False)
    assert modelled() >= share * cut


@pytest.mark.parametrize(
    "row", [(16, 3, 64, 224, 7, 2), (16, 64, 64, 56, 3), (16, 64, 128, 56, 1, 2)]
)
def test_what_is_planned_is_charged(row: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of the sum and their adding, within a twentieth."""
    planned: list[float] = []  # of the whole, and then of each cut: adding, the parts
    for name in ("contraction_cycles", "_adding"):
        made = getattr(cutting, name)
        monkeypatch.setattr(
            cutting, name, lambda *given, made=made: planned.append(made(*given)) or planned[-1]
        )
    text = driver.run_from("trace", weight(*row), "asm", CompileOptions(machine="m7032", cores=8))
    cuts = [adding + parts for adding, parts in zip(planned[1::2], planned[2::2], strict=False)]
    charged = cycle_model.model(text, machine="m7032", cores=8).cycles
    assert min(cuts) == pytest.approx(charged, rel=0.05)
