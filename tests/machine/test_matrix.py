"""Matrix products and transposes of every type and orientation, at odd sizes, against numpy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ftm_backend.machine import MachineError
from machine.machine_programs import (
    NUMPY,
    WINDOWS_OF_A_TILE,
    from_bf16,
    run_text,
    to_bf16,
)

RESULT = {
    "f64": "f64", "f32": "f32", "bf16": "f32", "f16": "f32", "i8": "i32", "i32": "i32",
    "i64": "i64",
}  # fmt: skip
SIZES = [
    (1, 1, 1), (3, 5, 7), (14, 32, 16), (15, 33, 17), (96, 96, 64), (29, 100, 130), (1, 130, 40),
    (100, 1, 9), (5, 10, 600), (2, 200, 3),
]  # fmt: skip


def program(token: str, m: int, n: int, k: int, suffix: str, pad: int, repeat: int = 1) -> str:
    a, b = ((k, m) if ".TA" in suffix else (m, k)), ((n, k) if ".TB" in suffix else (k, n))
    return (
        f"""@program t, host
@in b0, {token}, {a[0]}x{a[1]}
@in b1, {token}, {b[0]}x{b[1]}
@out o0, {RESULT[token]}, {m}x{n}
@func main
  @tile A, sm, {token}, {a[0]}x{a[1] + pad}, 1, 0
  @tile B, gsm, {token}, {b[0]}x{b[1] + pad}, 1, 0
  @tile C, am, {RESULT[token]}, {m}x{n + pad}, 1, 0
    DLD b0[0], {a[0]}@{a[1]} | {a[1]}@1, A
    DLD b1[0], {b[0]}@{b[1]} | {b[1]}@1, B
    DWAITALL
    MM{suffix} A, B, C
"""
        + f"    MM{suffix}.ACC A, B, C\n" * (repeat - 1)
        + f"    DST C, o0[0], {m}@{n} | {n}@1\n@ret\n"
    )


def operands(token, m, n, k, suffix):
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)) * 3, rng.standard_normal((k, n)) * 3
    if token in ("i8", "i32", "i64"):
        a, b = (a * 20).astype(np.int64), (b * 20).astype(np.int64)
    else:
        a, b = a.astype(np.float32), b.astype(np.float32)
    encode = to_bf16 if token == "bf16" else lambda x: x.astype(NUMPY[token])
    stored = [encode(a.T if ".TA" in suffix else a), encode(b.T if ".TB" in suffix else b)]
    values = [from_bf16(s) if token == "bf16" else s for s in stored]
    exact = [v.astype(np.float64 if v.dtype.kind == "f" else np.int64) for v in values]
    return stored, (exact[0].T if ".TA" in suffix else exact[0]) @ (
        exact[1].T if ".TB" in suffix else exact[1]
    )


@pytest.mark.parametrize("pad", [0, 5])
@pytest.mark.parametrize("suffix", ["", ".TA", ".TB", ".TA.TB"])
@pytest.mark.parametrize("token", RESULT)
def test_products(fast, token, suffix, pad):
    for m, n, k in SIZES:
        stored, want = operands(token, m, n, k, suffix)
        got = run_text(fast, program(token, m, n, k, suffix, pad, repeat=2), stored)[0]
        if got.dtype.kind == "i":
            np.testing.assert_array_equal(got, 2 * want)
        else:
            np.testing.assert_allclose(
                got, 2 * want, rtol=1e-5, atol=1e-12 if token == "f64" else 2e-5 * np.sqrt(k)
            )


WITHIN_BOUND = """
import itertools
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from ftm_backend.machine import Machine
from machine.machine_programs import from_bf16, run_text
from machine.test_matrix import operands, program

machine = Machine(1)
sizes = (
    (1, 70, 49), (7, 33, 64), (20, 33, 17), (40, 100, 1030), (9, 3, 1),
    (16, 16, 32), (17, 48, 512), (75, 49, 545), (32, 31, 64),
)
suffixes = "", ".TA", ".TB", ".TA.TB"
for token, suffix, (m, n, k), pad in itertools.product(("f16", "bf16", "f32"), suffixes, sizes, (0, 1)):
    stored, exact = operands(token, m, n, k, suffix)
    got = run_text(machine, program(token, m, n, k, suffix, pad), stored)[0]
    a, b = (abs(from_bf16(x) if token == "bf16" else x).astype(np.float64) for x in stored)
    sums = (a.T if ".TA" in suffix else a) @ (b.T if ".TB" in suffix else b)
    assert (abs(got - exact) <= (k + 1) * 2**-24 * sums).all(), (token, suffix, m, n, k, pad)
"""


@pytest.mark.parametrize("kernels", ["portable", "avx2", "avx512", "avx512_bf16", "avx512_amx"])
def test_every_instruction_set_is_within_the_bound_of_the_manual(kernels):
    """A host without the instruction set runs the next lesser one."""
    subprocess.run(
        [sys.executable, "-c", WITHIN_BOUND, str(Path(__file__).parents[1])],
        env=os.environ | {"MACHINE_KERNELS": kernels},
        check=True,
    )


def test_special_values_of_bfloat16_stay_in_their_row(fast):
    a = np.ones((20, 33), np.float32)
    a[1, 32], a[2, 0], a[3, 7], a[4] = np.nan, np.inf, 3.3895314e38, 1e-39
    stored = [to_bf16(a), to_bf16(np.ones((33, 40), np.float32))]
    got = run_text(fast, program("bf16", 20, 40, 33, "", 0), stored)[0]
    assert np.isnan(got[1]).all() and (got[2] == np.inf).all()
    np.testing.assert_array_equal(got[3], from_bf16(stored[0])[3, 7])
    assert (np.abs(got[4]) < 1e-37).all()  # subnormal numbers may be 0
    assert (got[[0, *range(5, 20)]] == 33).all()


def test_rows_of_a_bfloat16_product_do_not_depend_on_the_others(fast):
    stored, _ = operands("bf16", 75, 49, 545, "")
    whole = run_text(fast, program("bf16", 75, 49, 545, "", 0), stored)[0]
    for rows in (9, 16, 31, 64):
        part = run_text(fast, program("bf16", rows, 49, 545, "", 3), [stored[0][:rows], stored[1]])
        np.testing.assert_array_equal(part[0], whole[:rows])


REUSED = """@program t, host
@in b0, bf16, 20x24
@in b1, bf16, 2x24x24
@out o0, f32, 5x20x24
@func main
  @tile A, sm, bf16, 20x24, 1, 0
  @tile B, am, bf16, 24x24, 1, 0
  @tile C, am, f32, 20x24, 1, 2048
    DLD b0[0], 20@24 | 24@1, A
    DLD b1[0], 24@24 | 24@1, B
    DWAITALL
    MM A, B, C
    DST C, o0[0], 20@24 | 24@1
    DWAITALL
    MM A, B, C
    DST C, o0[480], 20@24 | 24@1
    DWAITALL
    MM.TB A, B, C
    DST C, o0[960], 20@24 | 24@1
    DLD b1[576], 24@24 | 24@1, B
    DWAITALL
    MM.TB A, B, C
    DST C, o0[1440], 20@24 | 24@1
    DWAITALL
    @map 24 x 24, B:v0 -> B:v1
      VADD.BF16 v0, v0, v1
    @endmap
    MM A, B, C
    DST C, o0[1920], 20@24 | 24@1
    DWAITALL
@ret
"""


def test_a_packed_operand_is_used_until_its_tile_is_written(fast):
    """Five products of one tile: as loaded, again, transposed, after a load, after a map."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((20, 24), (2, 24, 24)))
    want = np.stack([a @ b[0], a @ b[0], a @ b[0].T, a @ b[1].T, a @ (2 * b[1])])
    for sign in (1, -1):  # the second run has other data in the same tiles
        got = run_text(fast, REUSED, [to_bf16(a), to_bf16(sign * b)])[0]
        np.testing.assert_array_equal(got, sign * want)


def test_integers_wrap(fast):
    a = np.full((1, 2), 2**31 - 1, np.int32)
    got = run_text(fast, program("i32", 1, 1, 2, "", 0), [a, a.T])[0]
    assert got[0, 0] == 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_values_stay_in_their_row(fast, value):
    a, b = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)
    a[7, 3] = value
    got = run_text(fast, program("f32", 20, 40, 30, "", 0), [a, b])[0]
    assert not np.isfinite(got[7]).any() and np.isfinite(np.delete(got, 7, 0)).all()


def test_empty_products(fast):
    text = """@program t, host
@in b0, f32, 4x4
@out o0, f32, 3x4
@func main
  @tile A, am, f32, 4x4, 1, 0
  @tile B, am, f32, 4x4, 1, 64
  @tile C, am, f32, 4x4, 1, 128
    DLD b0[0], 3@4 | 0@1, A
    DLD b0[0], 0@4 | 4@1, B
    DWAITALL
    MM A, B, C
    MM.ACC A, B, C
    DST C, o0[0], 3@4 | 4@1
@ret
"""
    np.testing.assert_array_equal(
        run_text(fast, text, [np.ones((4, 4), np.float32)])[0], np.zeros((3, 4))
    )


@pytest.mark.parametrize("token", ["f64", "f32", "f16", "i8"])
@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 5), (8, 8), (17, 33), (64, 40), (100, 9)])
def test_transposes(fast, token, rows, columns):
    x = np.random.default_rng(0).integers(0, 100, (rows, columns)).astype(NUMPY[token])
    text = f"""@program t, host
@in b0, {token}, {rows}x{columns}
@out o0, {token}, {columns}x{rows}
@func main
  @tile X, am, {token}, {rows}x{columns + 2}, 1, 0
  @tile Y, sm, {token}, {columns}x{rows + 3}, 1, 0
    DLD b0[0], {rows}@{columns} | {columns}@1, X
    DWAIT X
    TRANS X, Y
    DST Y, o0[0], {columns}@{rows} | {rows}@1
@ret
"""
    np.testing.assert_array_equal(run_text(fast, text, [x])[0], x.T)


@pytest.mark.parametrize(
    "a, b, c, message",
    [
        ("3@4 | 4@1", "3@4 | 4@1", "MM A, B, C", "do not multiply"),
        ("4@4 | 4@1", "4@4 | 4@1", "MM A, B, D", "exceeds tile D"),
        (
            "3@4 | 4@1",
            "4@4 | 4@1",
            "MM A, B, C\n    MM.ACC B, B, C",
            "accumulates 4x4 onto C, which holds 3x4",
        ),
    ],
)
def test_extents_that_do_not_fit(fast, a, b, c, message):
    text = f"""@program t, host
@in b0, f32, 4x4
@out o0, f32, 1
@func main
  @tile A, am, f32, 4x4, 1, 0
  @tile B, am, f32, 4x4, 1, 64
  @tile C, am, f32, 4x4, 1, 128
  @tile D, am, f32, 2x4, 1, 192
    DLD b0[0], {a}, A
    DLD b0[0], {b}, B
    DWAITALL
    {c}
@ret
"""
    with pytest.raises(MachineError, match=message):
        run_text(fast, text, [np.ones((4, 4), np.float32)])


WINDOWS = """@program t, host
@in b0, f32, 4x6
@in b1, f32, 6x2
@out o0, f32, 4x2
@func main
  @tile A, sm, f32, 4x8, 1, 0
  @tile B, am, f32, 6x2, 1, 0
  @tile C, am, f32, 4x2, 1, 64
    DLD b0[0], 4@6 | 6@1, A
    DLD b1[0], 6@2 | 2@1, B
    DWAITALL
    MMW A, {dims}, B, C
    DST C, o0[0], 4@2 | 2@1
@ret
"""


@pytest.mark.parametrize(("dims", "rows", "columns"), WINDOWS_OF_A_TILE)
def test_windows_are_read_where_they_lie(checked, dims, rows, columns):
    a, b = (
        np.arange(24, dtype=np.float32).reshape(4, 6),
        np.arange(12, dtype=np.float32).reshape(6, 2) - 5,
    )
    windows = np.array([[a[i + k, j + l] for k, l in columns] for i, j in rows])
    np.testing.assert_array_equal(
        run_text(checked, WINDOWS.format(dims=dims), [a, b])[0], windows @ b
    )


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ("3@8 | 6@2", "current extents"),
        ("4@8 | 6@16", "reach element"),
        ("5@1 | 6@1", "exceed tile C"),
        ("4@8 | 5@1", "do not multiply"),
        ("4@8 | 7@1", "more columns than B has rows"),
    ],
)
def test_windows_outside_are_faults(checked, dims, message):
    a, b = np.zeros((4, 6), np.float32), np.zeros((6, 2), np.float32)
    with pytest.raises(MachineError, match=message):
        run_text(checked, WINDOWS.format(dims=dims), [a, b])
