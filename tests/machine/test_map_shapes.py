"""How maps are cut into strips must not show: shapes, broadcasts, padded tiles, reductions, updates
in place."""

from __future__ import annotations

import numpy as np
import pytest

from machine.machine_programs import MapProgram, from_bf16, run_text, suffix, to_bf16

SHAPES = [
    (1, 1), (1, 7), (7, 1), (3, 5), (5, 67), (67, 5), (2, 1023), (3, 1025), (40, 64), (130, 33),
    (9, 512), (1, 5000), (513, 2),
]  # fmt: skip


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("rows, columns", SHAPES)
def test_broadcasts(fast, rows, columns, pad):
    rng = np.random.default_rng(rows * 1000 + columns)
    x, r, c, o = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((rows, columns), (1, columns), (rows, 1), (1, 1))
    )
    program = MapProgram(
        rows,
        columns,
        [("f32", "full"), ("f32", "row"), ("f32", "col"), ("f32", "one")],
        [("f32", "full"), ("f32", "full")],
        [
            "VMUL.F32 v0, v1, v5",
            "VADD.F32 v5, v2, v6",
            "VSUB.F32 v6, v3, v100",
            "VMAX.F32 v2, v1, v101",
        ],
        pad=pad,
    )
    got = program.run(fast, [x, r, c, o])
    np.testing.assert_array_equal(got[0], x * r + c - o)
    np.testing.assert_array_equal(got[1], np.maximum(c, r))


@pytest.mark.parametrize("pad", [0, 2])
@pytest.mark.parametrize("token", ["bf16", "f16", "u8", "i64"])
@pytest.mark.parametrize("rows, columns", [(3, 5), (40, 30), (2, 1500)])
def test_broadcasts_of_other_widths(fast, rows, columns, token, pad):
    rng = np.random.default_rng(1)
    encode = {"bf16": lambda v: to_bf16(v), "f16": lambda v: v.astype(np.float16)}.get(
        token, lambda v: (v * 10).astype(np.int64).astype(np.uint8 if token == "u8" else np.int64)
    )
    x, r, c, o = (
        encode(rng.uniform(0, 5, s).astype(np.float32))
        for s in ((rows, columns), (1, columns), (rows, 1), (1, 1))
    )
    s = suffix(token)
    program = MapProgram(
        rows,
        columns,
        [(token, "full"), (token, "row"), (token, "col"), (token, "one")],
        [(token, "full")],
        [f"VMAX.{s} v0, v1, v5", f"VMAX.{s} v5, v2, v5", f"VMAX.{s} v5, v3, v100"],
        pad=pad,
    )
    got = program.run(fast, [x, r, c, o])[0]
    # bf16 > 0 are ordered as their bits
    np.testing.assert_array_equal(got, np.maximum(np.maximum(np.maximum(x, r), c), o))


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}
AXES = {"r": 1, "c": 0, "a": (0, 1)}


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("rows, columns", SHAPES)
@pytest.mark.parametrize("scope", AXES)
def test_reductions(fast, rows, columns, scope, pad):
    rng = np.random.default_rng(rows + columns)
    x = rng.uniform(0.98, 1.02, (rows, columns)).astype(np.float32)
    names = list(REDUCTIONS)
    program = MapProgram(
        rows,
        columns,
        [("f32", "full")],
        [("f32", f"{scope}{n}") for n in names],
        [f"VMOV.F32 v0, v{100 + k}" for k in range(len(names))],
        pad=pad,
    )
    for name, got in zip(names, program.run(fast, [x]), strict=True):
        want = REDUCTIONS[name](x.astype(np.float64), axis=AXES[scope], keepdims=True)
        np.testing.assert_allclose(got, want.reshape(got.shape), rtol=3e-7)


@pytest.mark.parametrize("token", ["f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"])
@pytest.mark.parametrize("scope", AXES)
def test_reductions_of_types(fast, token, scope):
    rng = np.random.default_rng(3)
    values = rng.integers(1, 4, (6, 70))
    x = (
        to_bf16(values.astype(np.float32))
        if token == "bf16"
        else values.astype(
            {
                "f64": "f8", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1",
                "u8": "u1",
            }[token]
        )
    )  # fmt: skip
    names = ["sum", "min", "max"]
    program = MapProgram(
        6,
        70,
        [(token, "full")],
        [(token, f"{scope}{n}") for n in names],
        [f"VMOV.{suffix(token)} v0, v{100 + k}" for k in range(3)],
    )
    for name, got in zip(names, program.run(fast, [x]), strict=True):
        want = REDUCTIONS[name](values, axis=AXES[scope], keepdims=True)
        if token in ("i8", "u8"):
            want = want.astype(got.dtype)
        shown = from_bf16(got) if token == "bf16" else got
        rounded = (
            from_bf16(to_bf16(want.astype(np.float32)))
            if token == "bf16"
            else want.astype(shown.dtype)
        )
        np.testing.assert_array_equal(shown, rounded.reshape(shown.shape))


@pytest.mark.parametrize("scope", AXES)
def test_logical_reductions(fast, scope):
    x = np.random.default_rng(4).integers(0, 2, (5, 70)).astype(bool)
    x[0] = True
    x[:, 3] = False
    x[:, 4] = True
    program = MapProgram(
        5,
        70,
        [("i1", "full")],
        [("i1", f"{scope}and"), ("i1", f"{scope}or")],
        ["VMOV.B1 v0, v100", "VMOV.B1 v0, v101"],
    )
    both, any_ = program.run(fast, [x])
    np.testing.assert_array_equal(both.ravel(), np.all(x, axis=AXES[scope]).ravel())
    np.testing.assert_array_equal(any_.ravel(), np.any(x, axis=AXES[scope]).ravel())


@pytest.mark.parametrize("where", [(0, 0), (2, 35), (4, 69)])
def test_nan_comes_through_min_and_max(fast, where):
    x = np.random.default_rng(5).standard_normal((5, 70)).astype(np.float32)
    x[where] = np.nan
    names = ["rmin", "rmax", "cmin", "cmax", "amin", "amax"]
    program = MapProgram(
        5,
        70,
        [("f32", "full")],
        [("f32", n) for n in names],
        [f"VMOV.F32 v0, v{100 + k}" for k in range(6)],
    )
    for name, got in zip(names, program.run(fast, [x]), strict=True):
        want = REDUCTIONS[name[1:]](x, axis=AXES[name[0]], keepdims=True)
        np.testing.assert_array_equal(got, want.reshape(got.shape))


def test_a_million_terms(fast):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1000, 1000)).astype(np.float32) + np.float32(0.5)
    program = MapProgram(
        1000,
        1000,
        [("f32", "full")],
        [("f32", "asum"), ("f32", "rsum"), ("f32", "csum")],
        ["VMOV.F32 v0, v100", "VMOV.F32 v0, v101", "VMOV.F32 v0, v102"],
        space="gsm",
    )
    total, rows, columns = program.run(fast, [x])
    exact = x.astype(np.float64)
    np.testing.assert_allclose(total, exact.sum().reshape(1, 1), rtol=1e-7)
    np.testing.assert_allclose(rows, exact.sum(1, keepdims=True), rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(columns, exact.sum(0, keepdims=True), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("rows, columns", [(0, 5), (5, 0), (0, 0)])
def test_nothing_reduces_to_the_identity(fast, rows, columns):
    header = "@program t, host\n" + "".join(
        f"@out o{k}, f32, {n}\n" for k, n in enumerate([5, 5, 1])
    )
    text = (
        header
        + f"""@func main
  @tile X, am, f32, 8x8, 1, 0
  @tile R, am, f32, 8x1, 1, 256
  @tile C, am, f32, 1x8, 1, 320
  @tile A, am, f32, 1x1, 1, 384
    @map 8 x 8 -> X:v1
      VMOV.F32 1.0, v1
    @endmap
    @map {rows} x {columns}, X:v0 -> R:v0.rsum, C:v0.cmax, A:v0.aprod
    @endmap
    DST R, o0[0], {rows}@1 | 1@1
    DST C, o1[0], 1@1 | {columns}@1
    DST A, o2[0], 1@1 | 1@1
@ret
"""
    )
    r, c, a = run_text(fast, text)
    np.testing.assert_array_equal(r[:rows], np.zeros(rows))
    np.testing.assert_array_equal(c[:columns], np.full(columns, -np.inf))
    np.testing.assert_array_equal(a, [1.0])


@pytest.mark.parametrize("rows, columns", [(4, 6), (3, 1500), (200, 40)])
def test_accumulating_reductions(fast, rows, columns):
    x = np.random.default_rng(7).standard_normal((rows, columns)).astype(np.float32)
    text = f"""@program t, host
@in b0, f32, {rows}x{columns}
@out o0, f32, {rows}x1
@out o1, f32, 1x{columns}
@out o2, f32, 1x1
@func main
  @tile X, am, f32, {rows}x{columns}, 1, 0
  @tile R, am, f32, {rows}x1, 1, 131072
  @tile C, am, f32, 1x{columns}, 1, 139264
  @tile A, am, f32, 1x1, 1, 327680
    DLD b0[0], {rows}@{columns} | {columns}@1, X
    DWAIT X
    @map {rows} x {columns}, X:v0 -> R:v0.rmax, C:v0.csum, A:v0.asum
    @endmap
    @map {rows} x {columns}, X:v0 -> R:v1.rmax.acc, C:v0.csum.acc, A:v0.asum.acc
      VADD.F32 v0, 1.0, v1
    @endmap
    DST R, o0[0], {rows}@1 | 1@1
    DST C, o1[0], 1@1 | {columns}@1
    DST A, o2[0], 1@1 | 1@1
@ret
"""
    r, c, a = run_text(fast, text, [x])
    np.testing.assert_array_equal(r, (x + np.float32(1)).max(1, keepdims=True))
    np.testing.assert_allclose(
        c, 2 * x.sum(0, keepdims=True, dtype=np.float64), rtol=1e-6, atol=1e-5
    )
    np.testing.assert_allclose(a[0, 0], 2 * x.sum(dtype=np.float64), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("rows, columns", [(4, 6), (3, 1500), (200, 40)])
def test_updates_in_place(fast, rows, columns):
    rng = np.random.default_rng(8)
    x, y = (rng.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))
    text = f"""@program t, host
@in b0, f32, {rows}x{columns}
@in b1, f32, {rows}x{columns}
@out o0, f32, {rows}x{columns}
@out o1, f32, {rows}x{columns}
@out o2, f32, {rows}x1
@func main
  @tile X, am, f32, {rows}x{columns}, 1, 0
  @tile Y, am, f32, {rows}x{columns}, 1, 131072
  @tile S, am, f32, {rows}x1, 1, 327680
    DLD b0[0], {rows}@{columns} | {columns}@1, X
    DLD b1[0], {rows}@{columns} | {columns}@1, Y
    DWAITALL
    // X is read again after its new value exists; then both are swapped, while X is reduced.
    @map {rows} x {columns}, X:v0, Y:v1 -> X:v2, Y:v3
      VADD.F32 v0, v1, v2
      VMUL.F32 v0, v2, v3
    @endmap
    @map {rows} x {columns}, X:v0, Y:v1 -> X:v1, Y:v0, S:v0.rmax
    @endmap
    DST X, o0[0], {rows}@{columns} | {columns}@1
    DST Y, o1[0], {rows}@{columns} | {columns}@1
    DST S, o2[0], {rows}@1 | 1@1
@ret
"""
    got = run_text(fast, text, [x, y])
    np.testing.assert_array_equal(got[0], x * (x + y))
    np.testing.assert_array_equal(got[1], x + y)
    np.testing.assert_array_equal(got[2], (x + y).max(1, keepdims=True))


def test_constants_fill_tiles(fast):
    program = MapProgram(
        9,
        130,
        [("f32", "full")],
        [("f32", "full"), ("bf16", "full"), ("i1", "full"), ("f64", "full")],
        ["VMOV.F32 2.5, v100", "VMOV.BF16 1.5, v101", "VMOV.B1 1, v102", "VMOV.F64 s0, v103"],
        scalars=("f64",),
    )
    f, h, b, d = program.run(fast, [np.zeros((9, 130), np.float32)], (0.1,))
    assert (f == 2.5).all() and (from_bf16(h) == 1.5).all() and b.all() and (d == 0.1).all()


def test_scalar_arguments_convert(fast):
    program = MapProgram(
        2,
        3,
        [("f32", "full")],
        [("f32", "full"), ("f32", "full"), ("i32", "full"), ("f16", "full")],
        [
            "VADD.F32 v0, s0, v100",
            "VADD.F32 v0, s1, v101",
            "VMOV.I32 s1, v102",
            "VMOV.F16 s0, v103",
        ],
        scalars=("f64", "i64"),
    )
    f, g, i, h = program.run(fast, [np.zeros((2, 3), np.float32)], (0.1, 2**33 + 5))
    assert (
        (f == np.float32(0.1)).all()
        and (g == np.float32(2**33 + 5)).all()
        and (i == 5).all()
        and (h == np.float16(0.1)).all()
    )


@pytest.mark.parametrize("rows, columns", [(3, 7), (40, 30), (2, 2000)])
@pytest.mark.parametrize("step", ["even", "odd"])
def test_positions_and_random_bits(fast, rows, columns, step):
    row_step = columns if step == "even" else 2 * columns + 1
    program = MapProgram(
        rows,
        columns,
        [("f32", "full")],
        [("i64", "full"), ("i32", "full")],
        [f"VIDX 5, {row_step}, 1, v100", "VPHILOX v100, s0, s1, v101"],
        scalars=("i64", "i64"),
    )
    index, words = program.run(fast, [np.zeros((rows, columns), np.float32)], (123456789012345, 77))
    want = 5 + np.arange(rows)[:, None] * row_step + np.arange(columns)
    np.testing.assert_array_equal(index, want)
    np.testing.assert_array_equal(words.view(np.uint32), philox(want, 123456789012345, 77))


def philox(index: np.ndarray, seed: int, offset: int) -> np.ndarray:
    """Philox4x32-10, word index % 4 of counter (index / 4, offset); vectorized over the index."""
    mask = np.uint64(0xFFFFFFFF)
    i = index.astype(np.uint64)
    block = i >> np.uint64(2)
    x = [
        block & mask,
        block >> np.uint64(32),
        np.full_like(i, offset & 0xFFFFFFFF),
        np.full_like(i, offset >> 32),
    ]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [
            (q >> np.uint64(32)) ^ x[1] ^ np.uint64(k[0]),
            q & mask,
            (p >> np.uint64(32)) ^ x[3] ^ np.uint64(k[1]),
            p & mask,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.choose((i & np.uint64(3)).astype(int), x).astype(np.uint32)


@pytest.mark.parametrize(
    "token", ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "i1"]
)
def test_gathers(fast, token):
    from machine.machine_programs import NUMPY

    rng = np.random.default_rng(9)
    table = rng.integers(0, 2 if token == "i1" else 100, 500).astype(NUMPY[token])
    index = rng.integers(-3, 490, (4, 300))
    program = MapProgram(
        4,
        300,
        [("i64", "full")],
        [(token, "full")],
        [f"VGA.{suffix(token)} b1[10], v0, v100"],
        buffers=(f"@in b1, {token}, 500",),
    )
    index = np.maximum(index, -10)
    np.testing.assert_array_equal(program.run(fast, [index, table])[0], table[index + 10])


def test_outputs_of_one_value(fast, checked):
    """Two full outputs and a reduction of the same value."""
    x = np.arange(70, dtype=np.float32).reshape(2, 35)
    outputs = [("f32", "full"), ("f32", "full"), ("f32", "asum")]
    body = ["VADD.F32 v0, 1.0, v100", "VMOV.F32 v100, v101", "VMOV.F32 v100, v102"]
    program = MapProgram(2, 35, [("f32", "full")], outputs, body)
    for machine in (fast, checked):
        first, second, total = program.run(machine, [x])
        np.testing.assert_array_equal(first, x + 1)
        np.testing.assert_array_equal(second, x + 1)
        assert total[0, 0] == (x + 1).sum()
