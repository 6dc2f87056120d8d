"""Transposes on chip through the whole compiler and the checked emulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check

ORDERS = {
    "a matrix": ((173, 211), (1, 0)),
    "pixels before channels": ((3, 67, 31, 29), (0, 2, 3, 1)),
    "interleaved": ((2, 5, 41, 61), (1, 2, 3, 0)),
    "interleaved by three": ((3, 7, 2, 53, 29), (1, 3, 2, 4, 0)),
    "all reversed": ((9, 10, 11, 37), (3, 2, 1, 0)),
    "rows of one": ((1, 311, 97, 1), (2, 1, 0, 3)),
}


def permuted(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "f32") -> Program:
    """A permutation that is made contiguous."""
    program, strides = Program(dtype), row_major(shape)
    x = program.integers(*shape, least=-128, end=128)
    view = program.view(x, [shape[k] for k in order], [strides[k] for k in order])
    return program.returns(program.call("clone", self=view, memory_format=None))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", ORDERS)
def test_every_order(name: str, cores: int) -> None:
    program = permuted(*ORDERS[name])
    text = assembly(program, replace(M7032, cores=cores))
    assert "TRANS" in text
    check(program, text, *{1, 3, cores}, tolerance=0)


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_on_the_host(name: str) -> None:
    """Transfers that the core executes itself gain as much by tiles."""
    program = permuted(*ORDERS[name])
    text = assembly(program, replace(presets.load("host"), cores=2))
    assert "TRANS" in text
    check(program, text, 2, tolerance=0)


@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "i32", "i8"])
def test_every_type(dtype: str) -> None:
    program = permuted(*ORDERS["pixels before channels"], dtype)
    check(program, assembly(program, replace(M7032, cores=3)), 3, tolerance=0)


@pytest.mark.parametrize(("shape", "order"), [((8, 64, 12, 64), (0, 2, 1, 3)), ((12, 10), (1, 0))])
def test_rows_that_stay_rows_and_small_copies_are_left_to_nests(
    shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    assert "TRANS" not in assembly(permuted(shape, order))


@pytest.mark.parametrize("name", ["a matrix", "interleaved", "pixels before channels"])
def test_small_scratchpads(name: str) -> None:
    program = permuted(*ORDERS[name])
    text = assembly(program, replace(M7032, am_bytes=16 * 1024, cores=3))
    check(program, text, 3, tolerance=0)


@pytest.mark.parametrize(
    ("shape", "order"),
    [((2, 64, 64, 64), (1, 2, 3, 0)), ((16, 128, 28, 28), (0, 2, 3, 1)), ((2048, 2048), (1, 0))],
)
def test_each_byte_moves_about_once(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    profile = cycle_model.model(assembly(permuted(shape, order)), machine="m7032", cores=8)
    assert profile.roofline >= 0.8
