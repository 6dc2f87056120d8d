"""Pass `split-pad`: padding is written around a tensor, and no element is written twice."""

from __future__ import annotations

import numpy as np
import pytest

from emulation import run_assembly
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Update
from ftm_backend.midend import pipeline
from ftm_backend.midend.transforms.tensor.split_pad import split_pad
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets

M7032 = presets.load("m7032")
CASES = {  # shape of the interior, and padding before and after it in each dimension
    "before, as of a pooling": ((3, 40, 150), ((0, 0), (1, 0), (1, 0))),
    "behind": ((5, 31, 200), ((0, 0), (0, 2), (0, 1))),
    "around": ((2, 17, 257), ((0, 0), (3, 1), (1, 2))),
    "rows": ((4, 30, 64), ((0, 0), (2, 1), (0, 0))),
    "outermost": ((3, 5, 70), ((1, 2), (0, 0), (0, 0))),
    "of one row": ((4000,), ((3, 500),)),
    "of one element": ((1, 1, 1), ((1, 1), (2, 0), (300, 300))),
    "all four": ((2, 3, 4, 300), ((1, 0), (0, 1), (1, 1), (7, 0))),
}
OTHERS = {
    "short rows": ((40, 30, 20), ((0, 0), (1, 1), (1, 1))),
    "large": ((64, 112, 112), ((0, 0), (1, 0), (1, 0))),
}
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32}


def trace(name: str, fill: str, dtype: str) -> str:
    """The trace of a tensor that is written into the middle of another."""
    inside, around = (CASES | OTHERS)[name]
    shape = [n + low + high for n, (low, high) in zip(inside, around, strict=True)]
    strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    offset = sum(low * step for (low, _), step in zip(around, strides, strict=True))
    sizes, whole = ",".join(map(str, inside)), ",".join(map(str, shape))
    return (
        f"trace\n  %0 = param {dtype}[{sizes}]\n  %1 = aten::neg(self=%0) : {dtype}[{sizes}]\n"
        f"  %2 = aten::full(size=[{whole}], fill_value={fill}, dtype={dtype}) : {dtype}[{whole}]\n"
        f"  %3 = ftm.update(base=%2, value=%1, sizes=[{sizes}], strides=[{','.join(map(str, strides))}], offset={offset}) : "
        f"{dtype}[{whole}]\n  return %3\n"
    )


def compiled(name: str, fill: str = "1.5", dtype: str = "f32", cores: int = 8) -> str:
    return driver.run_from(
        "trace", trace(name, fill, dtype), "asm", CompileOptions(machine="m7032", cores=cores)
    )


def check(name: str, cores: int, fill: str, dtype: str) -> None:
    inside, around = CASES[name]
    x = np.random.default_rng(0).integers(-9, 9, inside).astype(TYPES[dtype])
    (got,) = run_assembly(compiled(name, fill, dtype, cores), [x], cores=cores)
    np.testing.assert_array_equal(
        got, np.pad(-x, around, constant_values=float(fill) if "f" in dtype else int(fill))
    )


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_what_is_written(name: str, cores: int) -> None:
    check(name, cores, "-inf", "f32")


@pytest.mark.parametrize("dtype", ["f64", "f16", "i64", "i32"])
@pytest.mark.parametrize("name", CASES)
def test_elements_of_other_types(name: str, dtype: str) -> None:
    check(name, 3, "7", dtype)


def parts(name: str, machine: presets.MachineParameters = M7032) -> list[int]:
    """The parts of the updates, which must not overlap if the border is written separately."""
    text = driver.run_from(
        "trace", trace(name, "1.5", "f32"), "linalg", CompileOptions(machine="m7032")
    )
    updates = [
        x
        for x in split_pad(pipeline.LINALG.read(text, machine), machine).body
        if isinstance(x, Update)
    ]
    assert all((len(x.parts) == 1) == (x.base.value.splat is not None) for x in updates)
    return [len(x.parts) for x in updates]


def test_a_border_is_as_many_parts_as_it_has_sides() -> None:
    assert parts("before, as of a pooling") == [3]
    assert parts("around") == [5]
    assert parts("rows") == [3]


def test_short_rows_are_filled_together_with_what_is_between() -> None:
    """A granule for each row is more than the row."""
    assert parts("short rows") == [1]


def test_each_element_is_moved_once() -> None:
    profile = cycle_model.model(compiled("large"), machine="m7032", cores=8)
    assert profile.dma_bytes < 1.15 * 4 * 64 * (112**2 + 113**2) + 64 * 112 * 128
