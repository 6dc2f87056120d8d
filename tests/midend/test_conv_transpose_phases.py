"""Transposed convolutions of every stride by sub-pixel phases, compared with PyTorch.

They run on the real target's cores and on the host preset.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ftm_backend.frontend.oplib.subpixel_convolution import _phase
from ftm_backend.target import presets
from midend.harness import tune
from midend.trace_builder import Program
from midend.trace_programs import assembly, check, convolution


@pytest.fixture(autouse=True)
def phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is one product with folded windows (``test_conv_transpose``)."""
    tune(monkeypatch, conv_transpose="phases")


SHAPES: dict[str, tuple[Any, ...]] = {
    # images, channels, filters, size of the result, window, stride, padding, dilation, groups
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
TOLERANCE = {"f32": 1e-4, "f64": 1e-10, "bf16": 2e-2, "f16": 2e-2}


def gradient(shape: tuple[Any, ...], dtype: str = "f32") -> Program:
    """The gradient of an input."""
    *sizes, stride, padding, dilation, groups = shape
    where = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return convolution("input", *sizes, dtype=dtype, **where)


def run(program: Program, cores: int, machine: str = "m7032") -> str:
    text = assembly(program, replace(presets.load(machine), cores=cores))
    check(program, text, cores, tolerance=TOLERANCE[program.dtype])
    return text


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_the_input(name: str, cores: int) -> None:
    run(gradient(SHAPES[name]), cores)


@pytest.mark.parametrize("machine", ["host", "m7032"])
@pytest.mark.parametrize("name", SHAPES)
def test_in_f64(name: str, machine: str) -> None:
    run(gradient(SHAPES[name], "f64"), 2, machine)


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
