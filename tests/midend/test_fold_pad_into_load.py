"""Pass `fold-pad-into-load`: which copies disappear, and that results stay right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ftm_backend.ir.linalg.function import Update
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import fold_pad_into_load
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check, convolution, linalg

TIGHT = replace(M7032, am_bytes=32 * 1024, sm_bytes=3 * 1024, gsm_bytes=64 * 1024)
CASES: dict[str, tuple[Any, ...]] = {
    # images, channels, filters, size, window, stride, padding, dilation, groups
    "3x3": (3, 19, 40, (17, 13), (3, 3), 1, (1, 1), 1, 1),
    "7x7 by 2": (2, 3, 24, (29, 31), (7, 7), 2, (3, 3), 1, 1),
    "wide": (2, 5, 33, (19, 16), (3, 2), 1, (6, 4), 3, 1),
    "rows alone": (2, 8, 9, (15, 12), (3, 1), 1, (1, 0), 1, 1),
    "columns alone": (2, 8, 9, (15, 12), (1, 3), 2, (0, 1), 1, 1),
    "larger than the image": (2, 4, 6, (1, 2), (3, 3), 1, (1, 1), 1, 1),
    "groups": (2, 6, 9, (14, 11), (3, 3), 1, (1, 1), 1, 3),
    "one line": (2, 4, 6, (31,), (5,), 1, (2,), 1, 1),
    "three dimensions": (1, 3, 8, (5, 6, 7), (3, 3, 3), 1, (1, 1, 1), 1, 1),
}
DIRECTIONS = ("forward", "input", "weight")


def padded(name: str, direction: str, dtype: str = "f32") -> Program:
    *sizes, stride, padding, dilation, groups = CASES[name]
    where = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return convolution(direction, *sizes, dtype=dtype, **where)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_direction(name: str, direction: str, cores: int) -> None:
    program = padded(name, direction)
    for machine in (M7032, TIGHT):
        text = assembly(program, replace(machine, cores=cores))
        check(program, text, cores, tolerance=1e-4)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CASES)
def test_in_f64(name: str, direction: str) -> None:
    program = padded(name, direction, "f64")
    check(program, assembly(program, replace(M7032, cores=3)), 3, tolerance=1e-10)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_copy_is_made(direction: str) -> None:
    made = assembly(padded("3x3", direction))
    # windows that are summed on chip need no border
    assert ("FOLD" if direction == "input" else "DLB") in made
    assert made.count("@call") == 1


@pytest.mark.parametrize(
    ("value", "reader", "is_copied"),
    [(0.0, None, False), (0.0, "result", True), (0.0, "relu", True), (1.0, None, True)],
)
def test_what_others_read_is_copied(value: float, reader: str | None, is_copied: bool) -> None:
    program = Program()
    x, w = program.random(2, 4, 8, 8), program.random(4, 4, 3, 3)
    image = program.call("constant_pad_nd", self=x, pad=[1, 1, 1, 1], value=value)
    results = [program.convolution(image, w)]
    if reader:
        results.append(image if reader == "result" else program.relu(image))
    function = fold_pad_into_load(linalg(program.returns(*results)), M7032)
    assert any(isinstance(item, Update) for item in function.body) == is_copied


def test_a_residual_does_not_replace_what_windows_read() -> None:
    program = Program()
    held, w = program.random(2, 6, 40, 40), program.random(6, 6, 3, 3)
    for _ in range(2):
        held = program.relu(held)
        held = program.add(held, program.convolution(held, w, padding=1))
    program.returns(held)
    for cores in (1, 3, 8):
        check(program, assembly(program, replace(M7032, cores=cores)), cores, tolerance=1e-4)
