"""Scans and sorts through the compiler and the emulator, in scratchpads of every size.

Results are compared with numpy.
"""

from __future__ import annotations

import numpy as np
import pytest

from midend.contraction_programs import HOST, NUMPY, OVERLAPPED, SMALL, assembly, run, tensor

MACHINES = {"host": (HOST, 2), "small": (SMALL, 1), "overlapped": (OVERLAPPED, 3)}
UFUNCS = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "lse": np.logaddexp,
}  # fmt: skip


def scan(shape: tuple[int, ...], kind: str, dtype: str = "f32") -> str:
    """A program with one scan."""
    t = tensor(shape, dtype)
    return f"""
func.func @main(%x: {t}) -> {t} {{
  %r = "ftm.scan"(%x) {{kind = "{kind}"}} : ({t}) -> {t}
  return %r : {t}
}}"""


def sort(shape: tuple[int, ...], kept: int | None = None) -> str:
    """A program that sorts rows and returns their first ``kept`` columns."""
    t, out = tensor(shape, "i64"), tensor((shape[0], shape[1] if kept is None else kept), "i64")
    return f"""
func.func @main(%x: {t}) -> {out} {{
  %r = "ftm.sort"(%x) : ({t}) -> {out}
  return %r : {out}
}}"""


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1), (3, 50, 1), (3, 5000, 1), (1, 9001, 1), (1500, 7, 1), (4, 50, 5), (700, 3, 2),
        (2, 700, 33), (1, 40, 900), (5, 3, 8), (1, 1, 40), (0, 3, 2), (3, 0, 9),
    ],
)  # fmt: skip
def test_scan_of_every_shape(shape: tuple[int, ...], machine: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    parameters, cores = MACHINES[machine]
    (got,) = run(scan(shape, "add"), [x], parameters, cores)
    np.testing.assert_allclose(got, np.cumsum(x.astype(np.float64), 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 600, 1), (2, 30, 20)])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "i64", "i32", "i8"])
@pytest.mark.parametrize("kind", UFUNCS)
def test_scan_of_every_kind(kind: str, dtype: str, shape: tuple[int, ...]) -> None:
    if kind == "lse" and dtype[0] == "i":
        return
    x = (np.random.default_rng(0).standard_normal(shape) * (2 if kind != "mul" else 1)).astype(
        NUMPY[dtype]
    )
    with np.errstate(over="ignore"):
        want = (
            UFUNCS[kind]
            .accumulate(x, axis=1, dtype=np.float64 if dtype[0] == "f" else NUMPY[dtype])
            .astype(NUMPY[dtype])
        )
    (got,) = run(scan(shape, kind, dtype), [x], SMALL, 2)
    np.testing.assert_allclose(got, want, rtol={"f16": 2e-3, "f32": 1e-6}.get(dtype, 1e-12))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1), (3, 50), (3000, 3), (3, 5000), (1, 9001), (2, 2048), (2, 2049), (1, 33000), (0, 4),
        (4, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("values", ["random", "few", "descending"])
def test_sort(values: str, shape: tuple[int, ...], machine: str) -> None:
    rng = np.random.default_rng(0)
    x = (
        rng.integers(-(2**63), 2**63, shape, dtype=np.int64)
        if values == "random"
        else rng.integers(-2, 3, shape)
    )
    if values == "descending":
        x = -np.arange(x.size).reshape(shape)
    parameters, cores = MACHINES[machine]
    (got,) = run(sort(shape), [x], parameters, cores)
    np.testing.assert_array_equal(got, np.sort(x, 1))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((1, 1), 1), ((3, 50), 5), ((3, 50), 49), ((300, 30), 1), ((3, 5000), 4), ((2, 5000), 300),
        ((2, 5000), 2000), ((1, 33000), 7), ((1, 33000), 256), ((1, 33000), 257), ((3, 2000), 100),
        ((2, 9000), 8999), ((4, 5), 0),
    ],
)  # fmt: skip
def test_first_of_sorted_rows(shape: tuple[int, ...], kept: int, machine: str) -> None:
    parameters, cores = MACHINES[machine]
    for x in (
        np.random.default_rng(0).integers(-(2**63), 2**63, shape, dtype=np.int64),
        np.random.default_rng(0).integers(0, 9, shape),
    ):
        x[0, :3] = 2**63 - 1
        (got,) = run(sort(shape, kept), [x], parameters, cores)
        np.testing.assert_array_equal(got, np.sort(x, 1)[:, :kept])


def test_few_of_many_need_no_merging() -> None:
    assert "MERGE" not in assembly(sort((1, 9000), 10), SMALL)
    assert "MERGE" in assembly(sort((1, 9000), 1000), SMALL)


def test_long_rows_are_merged_and_short_ones_are_not() -> None:
    assert "MERGE" not in assembly(sort((2, 2048)), SMALL)
    assert assembly(sort((2, 2049)), SMALL).count("MERGE") == 1
    assert assembly(sort((1, 9000)), SMALL).count("MERGE") == 3


def test_all_cores_share_rows_and_blocks() -> None:
    for text in (
        scan((100, 900, 1), "add"),
        scan((1, 900, 100), "add"),
        sort((100, 900)),
        sort((1, 40000)),
    ):
        assert "SNC" in assembly(text, SMALL)
    assert "SNC" not in assembly(scan((1, 90000, 1), "add"), SMALL)


def test_views_are_read_where_they_lie() -> None:
    """A flipped scan and a sort of columns need no copy."""
    t, flat = tensor((4, 600, 1)), tensor((600, 4))
    text = f"""
func.func @main(%x: {flat}) -> {t} {{
  %v = "ftm.view"(%x) {{offset = 2396 : i64, strides = array<i64: 1, -4, 0>}} : ({flat}) -> {t}
  %r = "ftm.scan"(%v) {{kind = "add"}} : ({t}) -> {t}
  return %r : {t}
}}"""
    x = np.random.default_rng(0).standard_normal((600, 4)).astype(np.float32)
    (got,) = run(text, [x], SMALL)
    np.testing.assert_allclose(
        got[:, :, 0], np.cumsum(x[::-1].T.astype(np.float64), 1), rtol=1e-5, atol=1e-5
    )
    assert assembly(text, SMALL).count("@func") == 2


def test_splats_have_no_memory() -> None:
    """A constant tensor is written out before it is scanned."""
    t = tensor((1, 5, 1))
    text = f"""
func.func @main() -> {t} {{
  %c = arith.constant 2.0 : f32
  %e = tensor.empty() : {t}
  %f = linalg.fill ins(%c : f32) outs(%e : {t}) -> {t}
  %r = "ftm.scan"(%f) {{kind = "add"}} : ({t}) -> {t}
  return %r : {t}
}}"""
    np.testing.assert_array_equal(run(text, [])[0].reshape(-1), [2, 4, 6, 8, 10])
