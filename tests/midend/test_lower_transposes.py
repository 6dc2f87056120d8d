"""Transposes on chip through the whole compiler and the checked emulator.

Results are compared with numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from emulation import run_assembly
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.affine import row_major
from ftm_backend.midend import pipeline
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets

NUMPY = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32, "i8": np.int8}
M7032 = presets.load("m7032")
ORDERS = {
    "a matrix": ((173, 211), (1, 0)),
    "pixels before channels": ((3, 67, 31, 29), (0, 2, 3, 1)),
    "interleaved": ((2, 5, 41, 61), (1, 2, 3, 0)),
    "interleaved by three": ((3, 7, 2, 53, 29), (1, 3, 2, 4, 0)),
    "all reversed": ((9, 10, 11, 37), (3, 2, 1, 0)),
    "rows of one": ((1, 311, 97, 1), (2, 1, 0, 3)),
}


def permuted(shape: tuple[int, ...], order: tuple[int, ...], dtype: str = "f32") -> str:
    """The trace of a permutation that is made contiguous."""
    source, strides = ",".join(map(str, shape)), row_major(shape)
    sizes, steps = (",".join(str(of[k]) for k in order) for of in (shape, strides))
    return (
        f"trace\n  %0 = param {dtype}[{source}]\n"
        f"  %1 = ftm.view(base=%0, sizes=[{sizes}], strides=[{steps}], offset=0) : {dtype}[{sizes}]\n"
        f"  %2 = aten::clone(self=%1, memory_format=none) : {dtype}[{sizes}]\n  return %2\n"
    )


def compiled(text: str, cores: int, machine: str = "m7032") -> str:
    return driver.run_from("trace", text, "asm", CompileOptions(machine=machine, cores=cores))


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", ORDERS)
def test_every_order(name: str, cores: int) -> None:
    shape, order = ORDERS[name]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    text = compiled(permuted(shape, order), cores)
    assert "TRANS" in text
    for count in sorted({1, 3, cores}):
        (got,) = run_assembly(text, [x], cores=count)
        np.testing.assert_array_equal(got, x.transpose(order), err_msg=f"{count} cores")


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_on_the_host(name: str) -> None:
    """Transfers that the core executes itself gain as much by tiles."""
    shape, order = ORDERS[name]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    text = compiled(permuted(shape, order), 2, "host")
    assert "TRANS" in text
    (got,) = run_assembly(text, [x], cores=2, checked=False)
    np.testing.assert_array_equal(got, x.transpose(order))


@pytest.mark.parametrize("dtype", NUMPY)
def test_every_type(dtype: str) -> None:
    shape, order = ORDERS["pixels before channels"]
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(NUMPY[dtype])
    (got,) = run_assembly(compiled(permuted(shape, order, dtype), 3), [x], cores=3)
    np.testing.assert_array_equal(got, x.transpose(order))


def test_where_rows_stay_rows_nothing_is_turned() -> None:
    assert "TRANS" not in compiled(permuted((8, 64, 12, 64), (0, 2, 1, 3)), 8)


def test_small_copies_are_left_to_nests() -> None:
    assert "TRANS" not in compiled(permuted((12, 10), (1, 0)), 8)


@pytest.mark.parametrize("name", ["a matrix", "interleaved", "pixels before channels"])
def test_small_scratchpads(name: str) -> None:
    shape, order = ORDERS[name]
    machine = replace(M7032, am_bytes=16 * 1024, cores=3)
    text = driver.run_from(
        "trace", permuted(shape, order), "linalg", CompileOptions(machine="m7032", cores=3)
    )
    program = pipeline.run(pipeline.LINALG.read(text, machine), machine)
    from ftm_backend import codegen

    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (got,) = run_assembly(codegen.pipeline.run(program, machine), [x], cores=3)
    np.testing.assert_array_equal(got, x.transpose(order))


@pytest.mark.parametrize(
    ("shape", "order"),
    [((2, 64, 64, 64), (1, 2, 3, 0)), ((16, 128, 28, 28), (0, 2, 3, 1)), ((2048, 2048), (1, 0))],
)
def test_each_byte_moves_about_once(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    profile = cycle_model.model(compiled(permuted(shape, order), 8), machine="m7032", cores=8)
    assert profile.roofline >= 0.8
