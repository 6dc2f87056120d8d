"""Single nest kernels: elementwise, broadcast, transposed, gathers, indices, reductions, empty."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import check, run, stages
from midend.linalg_text import Function

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


ADD = "%r = arith.addf %a, %b : f32\n linalg.yield %r : f32"
SUM = "%r = arith.addf %x, %a : f32\n linalg.yield %r : f32"
MAX = "%r = arith.maximumf %x, %a : f32\n linalg.yield %r : f32"


@pytest.mark.parametrize("shape", [(1,), (5,), (3, 4), (100_003,), (301, 217), (2, 3, 4, 5), ()])
def test_dense_addition_of_any_shape(shape):
    kind = "x".join([*map(str, shape), "f32"])
    names = ", ".join("ijkl"[: len(shape)])
    f = Function()
    a, b = f.argument(kind), f.argument(kind)
    check(f.text(f.map(kind, [(a, names), (b, names)], ADD)), [normal(*shape), normal(*shape)])


@pytest.mark.parametrize("rows,columns", [(3, 5), (1, 7), (7, 1), (500, 130), (130, 2500)])
def test_row_and_column_broadcasts(rows, columns):
    f = Function()
    kind = f"{rows}x{columns}xf32"
    a, row, column, one = (
        f.argument(kind),
        f.argument(f"{columns}xf32"),
        f.argument(f"{rows}x1xf32"),
        f.argument("f32"),
    )
    body = "%p = arith.addf %a, %b : f32\n %q = arith.mulf %p, %c : f32\n %r = arith.subf %q, %d : f32\nlinalg.yield %r : f32"
    text = f.text(f.map(kind, [(a, "i, j"), (row, "j"), (column, "i, 0"), (one, "")], body))
    check(text, [normal(rows, columns), normal(columns), normal(rows, 1), normal()])


@pytest.mark.parametrize("shape", [(4, 6), (1, 9), (257, 300)])
def test_transposed_operand(shape):
    rows, columns = shape
    f = Function()
    a, b = f.argument(f"{columns}x{rows}xf32"), f.argument(f"{rows}x{columns}xf32")
    text = f.text(f.map(f"{rows}x{columns}xf32", [(a, "j, i"), (b, "i, j")], ADD))
    check(text, [normal(columns, rows), normal(rows, columns)])


def test_permuted_four_dimensions():
    f = Function()
    a, b = f.argument("3x5x4x6xf32"), f.argument("5x6x3x4xf32")
    check(
        f.text(f.map("3x4x5x6xf32", [(a, "i, k, j, l"), (b, "k, l, i, j")], ADD)),
        [normal(3, 5, 4, 6), normal(5, 6, 3, 4)],
    )


def test_every_element_type():
    f = Function()
    arrays, results = [], []
    for kind, dtype in (
        ("f64", np.float64),
        ("f32", np.float32),
        ("i64", np.int64),
        ("i32", np.int32),
        ("i16", np.int16),
        ("i8", np.int8),
    ):
        a, b = f.argument("70xi1".replace("i1", kind)), f.argument(f"70x{kind}")
        letter = "f" if kind[0] == "f" else "i"
        results.append(
            f.map(
                f"70x{kind}",
                [(a, "i"), (b, "i")],
                f"%r = arith.mul{letter} %a, %b : {kind}\n linalg.yield %r : {kind}",
            )
        )
        arrays += [RNG.integers(-9, 9, 70).astype(dtype), RNG.integers(-9, 9, 70).astype(dtype)]
    mask = f.argument("70xi1")
    arrays.append(RNG.integers(0, 2, 70).astype(bool))
    results.append(
        f.map(
            "70xi1",
            [(mask, "i"), (mask, "i")],
            "%t = arith.constant true\n %r = arith.xori %a, %t : i1\n linalg.yield %r : i1",
        )
    )
    check(f.text(*results), arrays)


def test_runtime_scalars_are_computed_once_and_broadcast():
    f = Function()
    a, s, n = f.argument("33xf32"), f.argument("f64"), f.argument("i64")
    t = f.line(f"arith.truncf {s} : f64 to f32", "f32")
    m = f.line(f"arith.sitofp {n} : i64 to f32", "f32")
    p = f.line(f"arith.mulf {t}, {m} : f32", "f32")
    body = f"%p = arith.mulf %a, {t} : f32\n %q = arith.addf %p, {p} : f32\n linalg.yield %q : f32"
    check(f.text(f.map("33xf32", [(a, "i")], body)), [normal(33)], [0.25, 3])


def test_positions_within_rows_columns_and_flat():
    f = Function()
    a = f.argument("37x41xf32")
    body = (
        "%i = linalg.index 0 : index\n %j = linalg.index 1 : index\n %ii = arith.index_cast %i : index to i64\n"
        "%jj = arith.index_cast %j : index to i64\n %c = arith.constant 41 : i64\n %m = arith.muli %ii, %c : i64\n"
        "%f = arith.addi %m, %jj : i64\n %k = arith.cmpi sgt, %jj, %ii : i64\n %s = arith.select %k, %f, %jj : i64\n"
        "%v = arith.sitofp %s : i64 to f32\n %r = arith.addf %v, %a : f32\n linalg.yield %r : f32"
    )
    check(f.text(f.map("37x41xf32", [(a, "i, j")], body)), [normal(37, 41)])


@pytest.mark.parametrize("rows,columns", [(300, 301), (700, 333), (3, 90_001)])
def test_vectors_of_positions_are_part_of_what_a_tile_takes(rows, columns):
    """Rows are joined to long columns, in which both numbers step unevenly: two vectors as wide as
    the tile."""
    f = Function()
    body = (
        "%i = linalg.index 0 : index\n %j = linalg.index 1 : index\n %k = arith.cmpi eq, %i, %j : index\n"
        "%r = arith.uitofp %k : i1 to f32\n linalg.yield %r : f32"
    )
    check(f.text(f.map(f"{rows}x{columns}xf32", [], body)), [])


def test_position_over_permuted_axes():
    f = Function()
    a = f.argument("6x5x7xf32")
    body = (
        "%j = linalg.index 1 : index\n %jj = arith.index_cast %j : index to i64\n"
        "%v = arith.sitofp %jj : i64 to f32\n %r = arith.addf %v, %a : f32\n linalg.yield %r : f32"
    )
    check(f.text(f.map("5x6x7xf32", [(a, "j, i, k")], body)), [normal(6, 5, 7)])


def test_gather_by_computed_index():
    f = Function()
    table, index = f.argument("11x3xf32"), f.argument("40xi64")
    body = (
        f"%i = arith.index_cast %a : i64 to index\n %j = linalg.index 1 : index\n"
        f"%r = tensor.extract {table}[%i, %j] : tensor<11x3xf32>\n linalg.yield %r : f32"
    )
    text = f.text(f.map("40x3xf32", [(index, "i")], body))
    check(text, [normal(11, 3), RNG.integers(0, 11, 40)])


@pytest.mark.parametrize("reduced", ["i", "j", "k", "i j", "j k", "i k", "i j k"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 6, 1), (40, 3, 70), (5, 300, 20)])
def test_sums_over_every_subset(shape, reduced):
    f = Function()
    a = f.argument("x".join(map(str, shape)) + "xf32")
    kept = [n for n in "ijk" if n not in reduced]
    kind = "x".join([str(shape["ijk".index(n)]) for n in kept] + ["f32"])
    zero = f.constant("0.0", "f32")
    text = f.text(
        f.generic("i j k", [(a, "i, j, k")], (f.fill(zero, kind), ", ".join(kept)), SUM, reduced)
    )
    check(text, [normal(*shape)], tolerance=1e-4)


def test_max_keeps_nan_and_starts_elsewhere():
    f = Function()
    a = f.argument("9x50xf32")
    start = f.constant("1.5", "f32")
    x = normal(9, 50)
    x[3, 7], x[4, 8] = np.nan, np.inf
    check(f.text(f.generic("i j", [(a, "i, j")], (f.fill(start, "9xf32"), "i"), MAX, "j")), [x])


def test_reduction_that_starts_from_a_tensor():
    f = Function()
    a, b = f.argument("90x50xf32"), f.argument("50xf32")
    check(
        f.text(f.generic("i j", [(a, "i, j")], (b, "j"), SUM, "i")),
        [normal(90, 50), normal(50)],
        tolerance=1e-4,
    )


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_large_sum_is_the_same_on_any_number_of_cores(cores):
    f = Function()
    a = f.argument("300000xf32")
    zero = f.constant("0.0", "f32")
    text = f.text(f.generic("i", [(a, "i")], (f.fill(zero, "f32"), ""), SUM, "i"))
    x = np.random.default_rng(1).standard_normal(300_000).astype(np.float32)
    machine = replace(presets.load("host"), cores=2)
    image = assembler.assemble(stages(text, machine)["asm"])
    found = [
        np.asarray(Machine(cores=n, checked=True).load(image).run([x], [])[0]) for n in (1, cores)
    ]
    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(found[0], x.astype(np.float64).sum(), rtol=1e-4, atol=1e-2)


def test_column_sums_of_a_tall_matrix():
    f = Function()
    a = f.argument("3001x40xf32")
    zero = f.constant("0.0", "f32")
    check(
        f.text(f.generic("i j", [(a, "i, j")], (f.fill(zero, "40xf32"), "j"), SUM, "i")),
        [normal(3001, 40)],
        tolerance=1e-3,
    )


def test_window_maximum_with_strides():
    f = Function()
    a = f.argument("2x3x8x10xf32")
    low = f.constant("0xFF800000", "f32")
    window = f.empty("2x2xf32")
    text = f.text(
        f.generic(
            "n c h w y x0",
            [(a, "n, c, h * 2 + y, w * 2 + x0"), (window, "y, x0")],
            (f.fill(low, "2x3x4x5xf32"), "n, c, h, w"),
            MAX,
            "y x0",
        )
    )
    check(text, [normal(2, 3, 8, 10)])


@pytest.mark.parametrize("width", [4, 28])
def test_small_windows_are_no_columns(width):
    """Of 2x2 windows, vector code would use 4 lanes."""
    kind, pooled = f"f32[64,8,{2 * width},{2 * width}]", f"[64,8,{width},{width}]"
    trace = (
        f"trace\n  %0 = param {kind}\n  %1, %2 = aten::max_pool2d_with_indices(self=%0,"
        " kernel_size=[2,2], stride=[2,2], padding=[0,0], dilation=[1,1], ceil_mode=0) :"
        f" f32{pooled}, i64{pooled}\n  return %1\n"
    )
    text = driver.run_from("trace", trace, "asm", CompileOptions(machine="host", cores=1))
    columns = [int(n) for n in re.findall(r"@tile \w+, am, f32, \d+x(\d+)", text)]
    assert columns and min(columns) >= 1024


def test_two_results_with_a_general_combiner():
    """Running maximum together with its position: no named reduction."""
    f = Function()
    a = f.argument("30x17xf32")
    low, zero = f.constant("0xFF800000", "f32"), f.constant("0", "i64")
    body = (
        "%j = linalg.index 1 : index\n %jj = arith.index_cast %j : index to i64\n %k = arith.cmpf ogt, %a, %x : f32\n"
        "%v = arith.select %k, %a, %x : f32\n %p = arith.select %k, %jj, %y : i64\n linalg.yield %v, %p : f32, i64"
    )
    g = f.generic(
        "i j",
        [(a, "i, j")],
        [(f.fill(low, "30xf32"), "i"), (f.fill(zero, "30xi64"), "i")],
        body,
        "j",
    )
    check(f.text(f"{g}#0", f"{g}#1"), [normal(30, 17)])


def test_products_minima_and_logic():
    f = Function()
    a, m = f.argument("6x11xf32"), f.argument("6x11xi1")
    one, high, true = (
        f.constant("1.0", "f32"),
        f.constant("0x7F800000", "f32"),
        f.constant("true", "i1"),
    )
    prod = f.generic(
        "i j",
        [(a, "i, j")],
        (f.fill(one, "6xf32"), "i"),
        "%r = arith.mulf %x, %a : f32\n linalg.yield %r : f32",
        "j",
    )
    low = f.generic(
        "i j",
        [(a, "i, j")],
        (f.fill(high, "11xf32"), "j"),
        "%r = arith.minimumf %x, %a : f32\n linalg.yield %r : f32",
        "i",
    )
    both = f.generic(
        "i j",
        [(m, "i, j")],
        (f.fill(true, "6xi1"), "i"),
        "%r = arith.andi %x, %a : i1\n linalg.yield %r : i1",
        "j",
    )
    mask = np.ones((6, 11), bool)
    mask[2, 3] = False
    check(f.text(prod, low, both), [normal(6, 11), mask])


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_empty_domains(shape):
    f = Function()
    kind = f"{shape[0]}x{shape[1]}xf32"
    a, b = f.argument(kind), f.argument(kind)
    zero = f.constant("2.0", "f32")
    added = f.map(kind, [(a, "i, j"), (b, "i, j")], ADD)
    total = f.generic("i j", [(a, "i, j")], (f.fill(zero, f"{shape[0]}xf32"), "i"), SUM, "j")
    check(f.text(added, total), [normal(*shape), normal(*shape)])


def test_random_numbers_of_no_position_are_computed_once():
    f = Function()
    seed, offset, out = f.argument("i64"), f.argument("i64"), f.argument("5xi32")
    zero = f.constant("0", "i64")
    outside = f.line(f'"ftm.philox"({zero}, {seed}, {offset}) : (i64, i64, i64) -> i32', "i32")
    a = f.map("5xi32", [(out, "i")], f"%r = arith.xori %a, {outside} : i32\n linalg.yield %r : i32")
    b = f.map(
        "5xi32",
        [(out, "i")],
        f'%p = "ftm.philox"({zero}, {seed}, {offset}) : (i64, i64, i64) -> i32\n%r = arith.xori %a, %p : i32\n linalg.yield %r : i32',
    )
    first, second = run(f.text(a, b), [np.arange(5, dtype=np.int32)], [11, 7])
    np.testing.assert_array_equal(first, second)
    assert first[0] != 0


@pytest.mark.parametrize(
    ("rows", "columns"), [(1024, 768), (1024, 3072), (300, 256), (5000, 64), (77, 1000)]
)
def test_sums_of_columns_and_what_follows_them_are_fetched_in_whole_granules(rows, columns):
    trace = (
        f"trace\n  %0 = param f32[{rows},{columns}]\n  %1 = param f32[{columns}]\n"
        f"  %2 = aten::sum.dim_IntList(self=%0, dim=[0], keepdim=false, dtype=none) : f32[{columns}]\n"
        f"  %3 = aten::mul.Tensor(self=%2, other=%1) : f32[{columns}]\n  return %3\n"
    )
    text = driver.run_from("trace", trace, "asm", CompileOptions(machine="m7032", cores=8))
    profile = cycle_model.model(text, machine="m7032", cores=8)
    assert profile.dma_bytes <= 1.3 * profile.least_bytes
    x, factors = normal(rows, columns), normal(columns)
    with Machine(cores=3, checked=True) as emulator:
        (result,) = emulator.load(assembler.assemble(text)).run([x, factors])
    np.testing.assert_allclose(
        result, x.sum(axis=0, dtype=np.float64) * factors, rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("length", [1_000_003, 70_001])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_long_tiles_on_the_host_begin_at_cache_lines(dtype, length):
    kind = f"{dtype}[{length}]"
    trace = f"trace\n  %0 = param {kind}\n  %1 = aten::relu(self=%0) : {kind}\n  return %1\n"
    text = driver.run_from("trace", trace, "asm", CompileOptions(machine="host", cores=2))
    (columns,) = set(re.findall(rf"@tile \w+, am, {dtype}, 1x(\d+),", text))
    assert 1 < int(columns) < length
    assert int(columns) * (4 if dtype == "f32" else 2) % 64 == 0
    if dtype == "f32":
        x = normal(length)
        with Machine(cores=2, checked=True) as emulator:
            (result,) = emulator.load(assembler.assemble(text)).run([x])
        np.testing.assert_array_equal(result, np.maximum(x, 0))


@pytest.mark.parametrize(
    ("machine", "shape", "exponentials"),
    [
        ("host", (300, 1000), 1),
        ("host", (30, 10_000), 1),
        ("m7032", (300, 1000), 1),
        ("host", (30, 60_000), 1),
        ("host", (3, 120_000), 2),
        ("m7032", (3, 40_000), 1),
        ("m7032", (3, 60_000), 2),
    ],
)
def test_softmax_keeps_the_exponentials_of_rows_that_fit_on_chip(machine, shape, exponentials):
    kind = f"f32[{shape[0]},{shape[1]}]"
    trace = (
        f"trace\n  %0 = param {kind}\n"
        f"  %1 = aten::_softmax(self=%0, dim=1, half_to_float=false) : {kind}\n  return %1\n"
    )
    text = driver.run_from("trace", trace, "asm", CompileOptions(machine=machine, cores=2))
    assert text.count("VEXP") == exponentials
    x = normal(*shape)
    with Machine(cores=2, checked=True) as emulator:
        (result,) = emulator.load(assembler.assemble(text)).run([x])
    parts = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(result, parts / parts.sum(axis=1, keepdims=True), rtol=1e-5)


def test_weights_of_a_normalization_take_no_room_in_each_row():
    kind = "f32[2048,1024]"
    trace = (
        f"trace\n  %0 = param {kind}\n  %1 = param f32[1024]\n  %2 = param f32[1024]\n"
        "  %3, %4, %5 = aten::native_layer_norm(input=%0, normalized_shape=[1024], weight=%1,"
        f" bias=%2, eps=1e-05) : {kind}, f32[2048,1], f32[2048,1]\n  return %3\n"
    )
    text = driver.run_from("trace", trace, "asm", CompileOptions(machine="host", cores=1))
    rows = max(int(n) for n in re.findall(r"@tile \w+, am, f32, (\d+)x1024", text))
    row, weights = 2 * 1024 * 4, 2 * 1024 * 4
    room = presets.load("host").am_bytes // 8
    assert 0.8 * (room - weights) < rows * row <= room - weights
