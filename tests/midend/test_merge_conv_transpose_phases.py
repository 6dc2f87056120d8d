"""Transposed convolutions of every stride by sub-pixel phases, compared with PyTorch.

They run on the real target's cores and on the host preset.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ftm_backend.frontend.oplib.subpixel_convolution import _phase
from ftm_backend.midend.transforms.tensor import fuse_interior_padding, merge_conv_transpose_phases
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
JOINED: dict[str, tuple[Any, ...]] = {  # phases of a row are one product
    "3x3 by 2": (2, 32, 24, (12, 16), (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "2x2 by 2: every phase has every tap": (2, 24, 8, (12, 12), (2, 2), (2, 2), (0, 0), (1, 1), 1),
    "5x4 by 2": (1, 20, 8, (14, 18), (5, 4), (2, 2), (2, 1), (1, 1), 1),
    "7x7 by 2, columns in blocks": (1, 96, 4, (10, 12), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    "1x1 by 2: zeros are of the product": (2, 32, 24, (12, 16), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "1x1 by 3 and 2": (1, 64, 7, (15, 14), (1, 1), (3, 2), (0, 0), (1, 1), 1),
    "1x1 by 2, the last line without": (2, 20, 9, (13, 16), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "rows apart by 3": (2, 33, 7, (15, 14), (3, 3), (3, 2), (1, 1), (1, 1), 1),
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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_phases_of_a_row_are_one_product(
    name: str, cores: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (fuse_interior_padding, merge_conv_transpose_phases):
        monkeypatch.setattr(
            module, "estimate", lambda kind, statements, machine: 1e9
        )  # it always pays
    assert "TRANS.ZIP" in run(gradient(JOINED[name], dtype), cores)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_halves_are_joined(dtype: str) -> None:
    shape = (2, 64, 48, (28, 28), (3, 3), 2, 1, 1, 1)
    assert "TRANS.ZIP" in run(gradient(shape, dtype), 3)


@pytest.mark.parametrize(
    ("name", "machine"), [("3x3 by 2", "host"), ("odd sizes", "m7032"), ("5x4 by 3", "m7032")]
)
def test_what_does_not_pay_or_is_read_elsewhere_stays(name: str, machine: str) -> None:
    """The host preset, an odd column that reads a phase, and three phases."""
    assert "TRANS.ZIP" not in assembly(gradient(SHAPES[name]), presets.load(machine))
