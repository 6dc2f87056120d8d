"""Transposed convolutions of every stride by sub-pixel phases, compared with PyTorch.

They run on the real target's cores and on the host preset.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.frontend.oplib.subpixel_convolution import _phase
from ftm_backend.machine import Machine
from ftm_backend.midend.transforms.tensor import fuse_interior_padding, merge_conv_transpose_phases
from midend.harness import tune


@pytest.fixture(autouse=True)
def phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is one product with folded windows (``test_conv_transpose``)."""
    tune(monkeypatch, conv_transpose="phases")


# images, channels, filters, size of the result, window, stride, padding, dilation, groups
SHAPES = {
    "3x3 by 2": (3, 7, 11, (14, 18), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "odd sizes": (2, 5, 9, (15, 13), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "7x7 by 2": (2, 3, 16, (28, 32), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    "5x4 by 3": (2, 6, 5, (17, 22), (5, 4), (3, 3), (2, 0), (1, 1), 1),
    "stride beyond the window": (2, 4, 6, (13, 15), (2, 2), (4, 3), (0, 0), (1, 1), 1),
    "one direction": (2, 4, 6, (13, 12), (3, 3), (2, 1), (1, 1), (1, 1), 1),
    "the other": (2, 4, 6, (12, 13), (3, 3), (1, 2), (0, 1), (1, 1), 1),
    "dilation 2": (1, 4, 6, (17, 19), (3, 3), (2, 2), (2, 1), (2, 2), 1),
    "dilation 3": (1, 4, 6, (17, 19), (3, 2), (2, 2), (3, 1), (3, 3), 1),
    "groups": (2, 6, 9, (14, 11), (3, 3), (2, 2), (1, 1), (1, 1), 3),
    "narrower than the stride": (2, 4, 3, (2, 1), (3, 3), (3, 3), (1, 1), (1, 1), 1),
    "one line": (2, 4, 6, (31,), (5,), (2,), (2,), (1,), 1),
    "three dimensions": (1, 3, 4, (7, 6, 9), (3, 2, 3), (2, 2, 2), (1, 0, 1), (1, 1, 1), 1),
}
TOLERANCE = {"f32": 1e-4, "f64": 1e-10}


def gradient(name: str, dtype: str) -> tuple[str, list[np.ndarray], np.ndarray]:
    """The trace of an input's gradient, its arguments and PyTorch's results."""
    n, c, f, size, window, stride, padding, dilation, groups = SHAPES[name]
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((n, c, *size), generator=generator, dtype=kind, requires_grad=True)
    w = torch.randn((f, c // groups, *window), generator=generator, dtype=kind)
    made = [functional.conv1d, functional.conv2d, functional.conv3d][len(size) - 1](
        x, w, None, stride, padding, dilation, groups
    )
    grad = torch.randn(made.shape, generator=generator, dtype=kind)
    (wanted,) = torch.autograd.grad(made, [x], grad)
    arrays = [t.detach().numpy() for t in (grad, x, w)]
    types = [f"{dtype}[{','.join(map(str, a.shape))}]" for a in arrays]
    lists = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "output_padding": (0,) * len(size),
    }
    words = ", ".join(f"{key}=[{','.join(map(str, value))}]" for key, value in lists.items())
    text = (
        "trace\n"
        + "".join(f"  %{k} = param {t}\n" for k, t in enumerate(types))
        + (
            "  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, "
            f"{words}, transposed=false, groups={groups}, output_mask=[true,false,false]) : {types[1]}, none, none\n  return %3\n"
        )
    )
    return text, arrays, wanted.numpy()


def run(text: str, arrays: list[np.ndarray], machine: str, cores: int) -> np.ndarray:
    image = assembler.assemble(
        driver.run_from("trace", text, "asm", CompileOptions(machine=machine, cores=cores))
    )
    with Machine(cores=cores, checked=True) as emulator:
        return emulator.load(image).run(arrays, [])[0]


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_the_input(name: str, cores: int) -> None:
    text, arrays, wanted = gradient(name, "f32")
    np.testing.assert_allclose(
        run(text, arrays, "m7032", cores), wanted, rtol=TOLERANCE["f32"], atol=TOLERANCE["f32"]
    )


@pytest.mark.parametrize("machine", ["host", "m7032"])
@pytest.mark.parametrize("name", SHAPES)
def test_in_f64(name: str, machine: str) -> None:
    text, arrays, wanted = gradient(name, "f64")
    np.testing.assert_allclose(
        run(text, arrays, machine, 2), wanted, rtol=TOLERANCE["f64"], atol=TOLERANCE["f64"]
    )


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
@pytest.mark.parametrize(("taps", "padding"), [(1, 0), (2, 1), (3, 1), (5, 4), (7, 3)])
def test_phases_meet_each_tap_once(stride: int, dilation: int, taps: int, padding: int) -> None:
    met = []
    for r in range(stride):
        phase = _phase(r, stride, padding, dilation, taps)
        for t in range(phase.count if phase is not None else 0):
            assert phase is not None
            tap = phase.first + phase.step * t
            met.append(tap)
            place = phase.end - phase.spacing * t  # of the input, for element r of the result
            assert place * stride + dilation * tap == r + padding
    common = math.gcd(stride, dilation)
    assert sorted(met) == sorted(
        tap
        for tap in range(taps)
        for r in range(stride)
        if (r + padding - dilation * tap) % stride == 0
    )
    assert common > 1 or sorted(met) == list(range(taps))


JOINED = {  # as SHAPES; phases of a row are one product
    "3x3 by 2": (2, 32, 24, (12, 16), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "2x2 by 2: every phase has every tap": (2, 24, 8, (12, 12), (2, 2), (2, 2), (0, 0), (1, 1), 1),
    "5x4 by 2": (1, 20, 8, (14, 18), (5, 4), (2, 2), (2, 1), (1, 1), 1),
    "7x7 by 2, columns in blocks": (1, 96, 4, (10, 12), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    "1x1 by 2: zeros are of the product": (2, 32, 24, (12, 16), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "1x1 by 3 and 2": (1, 64, 7, (15, 14), (1, 1), (3, 2), (0, 0), (1, 1), 1),
    "1x1 by 2, the last line without": (2, 20, 9, (13, 16), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "rows apart by 3": (2, 33, 7, (15, 14), (3, 3), (3, 2), (1, 1), (1, 1), 1),
}


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_phases_of_a_row_are_one_product(
    name: str, cores: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHAPES, name, JOINED[name])
    for module in (fuse_interior_padding, merge_conv_transpose_phases):
        monkeypatch.setattr(
            module, "contraction_cycles", lambda statement, machine: 1e9
        )  # it always pays
    text, arrays, wanted = gradient(name, dtype)
    assembly = driver.run_from("trace", text, "asm", CompileOptions(machine="m7032", cores=cores))
    assert "TRANS.ZIP" in assembly
    np.testing.assert_allclose(
        run(text, arrays, "m7032", cores), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_halves_are_joined(dtype: str) -> None:
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    generator = torch.Generator().manual_seed(0)
    x, grad, w = (
        torch.randn(shape, generator=generator).to(kind)
        for shape in ((2, 64, 28, 28), (2, 48, 14, 14), (48, 64, 3, 3))
    )
    wanted = functional.conv_transpose2d(
        grad.float(), w.float(), stride=2, padding=1, output_padding=1
    )
    types = [f"{dtype}[{','.join(map(str, t.shape))}]" for t in (grad, x, w)]
    text = (
        "trace\n"
        + "".join(f"  %{k} = param {t}\n" for k, t in enumerate(types))
        + (
            "  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, stride=[2,2], padding=[1,1], "
            f"dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, output_mask=[true,false,false]) : {types[1]}, none, none\n"
            "  return %3\n"
        )
    )
    assembly = driver.run_from("trace", text, "asm", CompileOptions(machine="m7032", cores=3))
    assert "TRANS.ZIP" in assembly
    with Machine(cores=3, checked=True) as emulator:
        bits = np.uint16 if dtype == "bf16" else np.float16
        (got,) = emulator.load(assembler.assemble(assembly)).run(
            [t.view(torch.int16).numpy().view(bits) for t in (grad, x, w)], []
        )
    made = torch.from_numpy(got.view(np.int16).copy()).view(kind).float()
    torch.testing.assert_close(made, wanted, rtol=2e-2, atol=1e-1)


def test_what_does_not_pay_or_is_read_elsewhere_stays() -> None:
    """Cases: the host preset, an odd column that reads a phase, and three phases."""
    trace = gradient("3x3 by 2", "f32")[0]
    assert "TRANS.ZIP" not in driver.run_from("trace", trace, "asm", CompileOptions(machine="host"))
    for name in ("odd sizes", "5x4 by 3"):
        assert "TRANS.ZIP" not in driver.run_from(
            "trace", gradient(name, "f32")[0], "asm", CompileOptions(machine="m7032")
        )
