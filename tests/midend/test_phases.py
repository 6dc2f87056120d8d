"""Transposed convolutions of every stride, by phases, against PyTorch: on the real target's cores, and on the host preset."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from ftm_backend import driver, isa
from ftm_backend.frontend.ops.convolution_phases import _phase
from ftm_backend.machine import Machine
from ftm_backend.options import Options

SHAPES = {  # images, channels, filters, size of the result, window, stride, padding, dilation, groups
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
    """The trace of an input's gradient, its arguments, and what PyTorch gives."""
    n, c, f, size, window, stride, padding, dilation, groups = SHAPES[name]
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((n, c, *size), generator=generator, dtype=kind, requires_grad=True)
    w = torch.randn((f, c // groups, *window), generator=generator, dtype=kind)
    made = [functional.conv1d, functional.conv2d, functional.conv3d][len(size) - 1](
        x, w, None, stride, padding, dilation, groups)
    grad = torch.randn(made.shape, generator=generator, dtype=kind)
    (wanted,) = torch.autograd.grad(made, [x], grad)
    arrays = [t.detach().numpy() for t in (grad, x, w)]
    types = [f"{dtype}[{','.join(map(str, a.shape))}]" for a in arrays]
    lists = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": (0,) * len(size)}
    words = ", ".join(f"{key}=[{','.join(map(str, value))}]" for key, value in lists.items())
    text = "trace\n" + "".join(f"  %{k} = param {t}\n" for k, t in enumerate(types)) + (
        "  %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, "
        f"{words}, transposed=false, groups={groups}, output_mask=[true,false,false]) : {types[1]}, none, none\n  return %3\n")
    return text, arrays, wanted.numpy()


def run(text: str, arrays: list[np.ndarray], machine: str, cores: int) -> np.ndarray:
    image = isa.assemble(driver.run_from("trace", text, "asm", Options(machine=machine, cores=cores)))
    with Machine(cores=cores, checked=True) as emulator:
        return emulator.load(image).run(arrays, [])[0]


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_the_input(name: str, cores: int) -> None:
    text, arrays, wanted = gradient(name, "f32")
    np.testing.assert_allclose(run(text, arrays, "m7032", cores), wanted, rtol=TOLERANCE["f32"], atol=TOLERANCE["f32"])


@pytest.mark.parametrize("machine", ["host", "m7032"])
@pytest.mark.parametrize("name", SHAPES)
def test_in_f64(name: str, machine: str) -> None:
    text, arrays, wanted = gradient(name, "f64")
    np.testing.assert_allclose(run(text, arrays, machine, 2), wanted, rtol=TOLERANCE["f64"], atol=TOLERANCE["f64"])


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
            place = phase.end - phase.apart * t  # of the input, for element r of the result
            assert place * stride + dilation * tap == r + padding
    common = math.gcd(stride, dilation)
    assert sorted(met) == sorted(tap for tap in range(taps) for r in range(stride) if (r + padding - dilation * tap) % stride == 0)
    assert common > 1 or sorted(met) == list(range(taps))
