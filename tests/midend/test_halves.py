"""Kernels on half types: each operation rounds; sums and products accumulate in f32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ftm_backend.target import presets
from midend.harness import run, stages
from midend.linalg_text import Function

RNG = np.random.default_rng(7)
HALVES = ["f16", "bf16"]
STEP = {"f16": 2.0**-10, "bf16": 2.0**-7}


def packed(values: np.ndarray, dtype: str) -> np.ndarray:
    """f32 numbers as a program takes them: rounded to nearest even; bf16 as its bits."""
    if dtype == "f16":
        return values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def unpacked(values: np.ndarray, dtype: str) -> np.ndarray:
    """The reverse, as f32."""
    return (
        values.astype(np.float32)
        if dtype == "f16"
        else (values.astype(np.uint32) << 16).view(np.float32)
    )


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    return unpacked(packed(values, dtype), dtype)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 17), (70, 130)])
def test_each_operation_rounds(dtype, rows, columns):
    f = Function()
    kind = f"{rows}x{columns}x{dtype}"
    a, b = f.argument(kind), f.argument(kind)
    made = f.map(
        kind,
        [(a, "i, j"), (b, "i, j")],
        f"%q = arith.mulf %a, %b : {dtype}\n %r = arith.addf %q, %a : {dtype}\n linalg.yield %r : {dtype}",
    )
    x, y = normal(rows, columns), normal(rows, columns)
    x, y = rounded(x, dtype), rounded(y, dtype)
    (got,) = run(f.text(made), [packed(x, dtype), packed(y, dtype)])
    np.testing.assert_array_equal(unpacked(got, dtype), rounded(rounded(x * y, dtype) + x, dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("cores", [1, 2])
def test_sums_of_rows_are_kept_in_f32(dtype, cores):
    """A kernel as softmax's: a maximum in the half type, then a sum in f32."""
    rows, columns = 37, 300
    f = Function()
    x = f.argument(f"{rows}x{columns}x{dtype}")
    top = f.generic(
        "i j",
        [(x, "i, j")],
        (
            f.fill(f.constant("0xFC00" if dtype == "f16" else "0xFF80", dtype), f"{rows}x{dtype}"),
            "i",
        ),
        f"%r = arith.maximumf %x, %a : {dtype}\n linalg.yield %r : {dtype}",
        "j",
    )
    total = f.generic(
        "i j",
        [(x, "i, j"), (top, "i")],
        (f.fill(f.constant("0.0", "f32"), f"{rows}xf32"), "i"),
        f"%d = arith.subf %a, %b : {dtype}\n %w = arith.extf %d : {dtype} to f32\n %e = math.exp %w : f32\n"
        "%r = arith.addf %x, %e : f32\n linalg.yield %r : f32",
        "j",
    )
    made = f.map(
        f"{rows}x{columns}x{dtype}",
        [(x, "i, j"), (top, "i"), (total, "i")],
        f"%d = arith.subf %a, %b : {dtype}\n %w = arith.extf %d : {dtype} to f32\n %e = math.exp %w : f32\n"
        f"%q = arith.divf %e, %c : f32\n %r = arith.truncf %q : f32 to {dtype}\n linalg.yield %r : {dtype}",
    )
    text = f.text(made)
    assert stages(text)["asm"].count("@func kernel_") == 1
    values = rounded(normal(rows, columns), dtype)
    (got,) = run(text, [packed(values, dtype)], cores=cores)
    parts = np.exp(rounded(values - values.max(1, keepdims=True), dtype))
    np.testing.assert_allclose(
        unpacked(got, dtype),
        parts / parts.sum(1, keepdims=True),
        rtol=1.01 * STEP[dtype],
        atol=1e-7,
    )


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("m", "n", "k"), [(2, 3, 1), (5, 33, 7), (64, 64, 64), (130, 75, 260)])
def test_products_accumulate_in_f32(dtype, m, n, k):
    f = Function()
    a, b, bias = (
        f.argument(f"{m}x{k}x{dtype}"),
        f.argument(f"{k}x{n}x{dtype}"),
        f.argument(f"{n}x{dtype}"),
    )
    c = f.generic(
        "m n k",
        [(a, "m, k"), (b, "k, n")],
        (f.fill(f.constant("0.0", "f32"), f"{m}x{n}xf32"), "m, n"),
        f"%p = arith.extf %a : {dtype} to f32\n %q = arith.extf %b : {dtype} to f32\n"
        "%t = arith.mulf %p, %q : f32\n %r = arith.addf %x, %t : f32\n linalg.yield %r : f32",
        "k",
    )
    made = f.map(
        f"{m}x{n}x{dtype}",
        [(c, "i, j"), (bias, "j")],
        f"%t = arith.truncf %a : f32 to {dtype}\n %r = arith.addf %t, %b : {dtype}\n linalg.yield %r : {dtype}",
    )
    text = f.text(made)
    assert stages(text)["asm"].count("@func kernel_") == 1
    x, w, v = (rounded(normal(*s), dtype) for s in ((m, k), (k, n), (n,)))
    for machine in (
        presets.load("host"),
        replace(presets.load("host"), am_bytes=16384, sm_bytes=8192),
    ):
        (got,) = run(text, [packed(x, dtype), packed(w, dtype), packed(v, dtype)], machine=machine)
        expected = rounded((x @ w), dtype) + v
        np.testing.assert_allclose(
            unpacked(got, dtype), expected, rtol=2 * STEP[dtype], atol=2 * STEP[dtype] * k**0.5
        )
