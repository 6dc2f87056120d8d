"""Pass `pack-operands`: which operands are copied, and that results stay right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from emulation import run_assembly
from ftm_backend import codegen, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend import pipeline
from ftm_backend.midend.transforms.tensor.pack_operands import pack_operands
from ftm_backend.target import presets
from midend.harness import tune
from midend.test_fold_pad_into_load import program
from midend.test_lower_transposes import permuted

M7032 = presets.load("m7032")


@pytest.fixture(autouse=True)
def phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is one product with folded windows (``test_conv_transpose``)."""
    tune(monkeypatch, conv_transpose="phases")


def _copies(text: str, machine: presets.MachineParameters = M7032) -> list[Statement]:
    """The copies that the pass adds."""
    linalg = driver.run_from("trace", text, "linalg", CompileOptions(machine="m7032"))
    function = pipeline.LINALG.read(linalg, machine)
    before = [
        item for item in function.body if isinstance(item, Statement) and item.op == "linalg.copy"
    ]
    pack_operands(function, machine)
    return [
        item
        for item in function.body
        if isinstance(item, Statement) and item.op == "linalg.copy" and item not in before
    ]


def gradient(
    images: int, filters: int, channels: int, side: int, window: int, dtype: str = "f32"
) -> str:
    """The trace of the gradient of an input."""
    x, y, w = (
        f"{dtype}[{','.join(map(str, shape))}]"
        for shape in (
            (images, channels, side, side),
            (images, filters, side, side),
            (filters, channels, window, window),
        )
    )
    p = window // 2
    return (
        f"trace\n  %0 = param {y}\n  %1 = param {x}\n  %2 = param {w}\n"
        "  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, stride=[1,1], "
        f"padding=[{p},{p}], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, "
        f"output_mask=[true,false,false]) : {x}, none, none\n  return %3\n"
    )


def test_weights_that_are_read_backwards_are_copied_tap_by_tap() -> None:
    (copy,) = _copies(gradient(16, 64, 64, 8, 3))
    assert copy.loops == (3, 3, 64, 64)


def test_what_lies_well_stays() -> None:
    assert not _copies(program("3x3", "forward")[0])
    assert not _copies(permuted((300, 200), (1, 0)))
    for layout in ("sizes=[700,600], strides=[1,700]", "sizes=[700,600], strides=[600,1]"):
        assert not _copies(
            f"trace\n  %0 = param f32[420000]\n  %1 = param f32[600,500]\n  %2 = ftm.view(base=%0, {layout}, offset=0)"
            " : f32[700,600]\n  %3 = aten::mm(self=%2, mat2=%1) : f32[700,500]\n  return %3\n"
        )


def test_where_the_copy_takes_longer_than_it_saves_there_is_none() -> None:
    assert not _copies(gradient(2, 512, 512, 1, 3))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize(
    ("images", "filters", "channels", "side", "window"),
    [(2, 64, 50, 9, 3), (1, 40, 33, 7, 5), (5, 31, 64, 4, 3)],
)
def test_fuse_conv_backward(
    images: int, filters: int, channels: int, side: int, window: int, cores: int, dtype: str
) -> None:
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    generator = torch.Generator().manual_seed(0)
    x, grad, w = (
        torch.randn(shape, generator=generator, dtype=kind)
        for shape in (
            (images, channels, side, side),
            (images, filters, side, side),
            (filters, channels, window, window),
        )
    )
    wanted = functional.conv_transpose2d(grad, w, padding=window // 2)
    machine = replace(M7032, cores=cores)
    linalg = driver.run_from(
        "trace",
        gradient(images, filters, channels, side, window, dtype),
        "linalg",
        CompileOptions(machine="m7032"),
    )
    text = codegen.pipeline.run(
        pipeline.run(pipeline.LINALG.read(linalg, machine), machine), machine
    )
    (got,) = run_assembly(text, [t.numpy() for t in (grad, x, w)], cores=cores)
    tolerance = {"f32": 1e-3, "f64": 1e-10}[dtype]
    np.testing.assert_allclose(got, wanted.numpy(), rtol=tolerance, atol=tolerance)


def test_what_else_reads_the_factor_does_not_take_the_copy_in() -> None:
    x = gradient(16, 64, 64, 8, 3).replace("  return %3\n", "")
    text = f"{x}  %6 = aten::mul.Scalar(self=%2, other=0.5) : f32[64,64,3,3]\n  return %3, %6\n"
    linalg = driver.run_from("trace", text, "fuse-ops", CompileOptions(machine="m7032"))
    assert linalg.count('kind = "nest"') == 2
