"""Pass `fuse-interior-padding`: elements and the zeros between them are written together."""

from __future__ import annotations

import numpy as np
import pytest

from emulation import run_assembly
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Update
from ftm_backend.midend import pipeline
from ftm_backend.midend.transforms.tensor.fuse_interior_padding import fuse_interior_padding
from ftm_backend.target import presets

M7032 = presets.load("m7032")
CASES = {  # shape, start and step of each dimension, how many
    "every second": ((3, 40, 64), (0, 0, 0), (1, 1, 2), (3, 40, 32)),
    "every third, from the second on": ((2, 30, 47), (0, 0, 1), (1, 1, 3), (2, 30, 15)),
    "rows apart, too": ((2, 41, 50), (0, 1, 0), (1, 2, 5), (2, 20, 10)),
    "of one row": ((4000,), (3,), (4,), (999,)),
    "up to the end": ((5, 20, 21), (0, 0, 0), (1, 1, 4), (5, 20, 6)),
    "without gaps": ((4, 20, 30), (0, 0, 3), (1, 2, 1), (4, 10, 20)),
}


def trace(name: str, fill: float, dtype: str = "f32") -> str:
    """The trace of a slice that is written into a full tensor."""
    shape, first, step, count = CASES[name]
    strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    offset = sum(a * b for a, b in zip(first, strides, strict=True))
    steps = ",".join(str(a * b) for a, b in zip(step, strides, strict=True))
    whole, part = (f"{dtype}[{','.join(map(str, sizes))}]" for sizes in (shape, count))
    return (
        f"trace\n  %0 = param {part}\n  %1 = aten::neg(self=%0) : {part}\n"
        f"  %2 = aten::full(size=[{','.join(map(str, shape))}], fill_value={fill}, dtype={dtype}) : "
        f"{whole}\n  %3 = ftm.update(base=%2, value=%1, sizes=[{','.join(map(str, count))}], strides=[{steps}], offset={offset}) : "
        f"{whole}\n  return %3\n"
    )


def _set(name: str, x: np.ndarray, fill: float) -> np.ndarray:
    shape, first, step, count = CASES[name]
    found = np.full(shape, fill, x.dtype)
    found[tuple(slice(a, a + n * s, s) for a, s, n in zip(first, step, count, strict=True))] = -x
    return found


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("fill", [0.0, 1.5])
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_what_is_written(name: str, cores: int, fill: float, dtype: str) -> None:
    x = (
        np.random.default_rng(0)
        .standard_normal(CASES[name][3])
        .astype({"f32": np.float32, "f64": np.float64}[dtype])
    )
    text = driver.run_from(
        "trace", trace(name, fill, dtype), "asm", CompileOptions(machine="m7032", cores=cores)
    )
    (got,) = run_assembly(text, [x], cores=cores)
    np.testing.assert_array_equal(got, _set(name, x, fill))


def _updates(name: str, machine: presets.MachineParameters = M7032) -> int:
    linalg = driver.run_from("trace", trace(name, 0.0), "linalg", CompileOptions(machine="m7032"))
    function = fuse_interior_padding(pipeline.LINALG.read(linalg, machine), machine)
    return sum(isinstance(item, Update) for item in function.body)


def test_where_it_is_done() -> None:
    assert _updates("every second") == 2
    assert _updates("rows apart, too") == 2
    assert _updates("without gaps") == 1
    assert _updates("up to the end") == 1  # the last gap would reach into the next row
