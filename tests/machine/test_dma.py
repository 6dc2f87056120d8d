"""Transfers of every shape against numpy: runs, repeats, transposes, many dimensions, accumulation,
rows by index."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from ftm_backend.machine import MachineError
from machine.machine_programs import NUMPY, WINDOWS_OF_A_TILE, run_text, to_bf16


def elements(token: str, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2 if token == "i1" else 120, count).astype(NUMPY[token])


def dims_text(extents, strides) -> str:
    return " ".join(f"{e}@{s}" for e, s in zip(extents, strides, strict=True))


def round_trip(machine, token, size, offset, rows, row_strides, columns, column_strides, pad=0):
    """Loads a strided window and stores it densely; returns what was stored and what numpy sees."""
    r, c = int(np.prod(rows)), int(np.prod(columns))
    data = elements(token, size)
    text = f"""@program t, host
@in b0, {token}, {size}
@out o0, {token}, {r}x{c}
@func main
  @tile X, am, {token}, {max(r, 1)}x{max(c, 1) + pad}, 1, 0
    DLD b0[{offset}], {dims_text(rows, row_strides)} | {dims_text(columns, column_strides)}, X
    DWAIT X
    DST X, o0[0], {r}@{c} | {c}@1
@ret
"""
    got = run_text(machine, text, [data])[0]
    item = data.itemsize
    window = as_strided(
        data[offset:],
        tuple(rows) + tuple(columns),
        [s * item for s in (*row_strides, *column_strides)],
    )
    return got, window.reshape(r, c)


SHAPES = {
    "dense": ([6], [40], [40], [1]),
    "rows": ([6], [50], [40], [1]),
    "one row": ([1], [0], [99], [1]),
    "transposed": ([40], [1], [33], [45]),
    "transposed, small": ([3], [1], [5], [10]),
    "strided": ([5], [100], [20], [3]),
    "reversed": ([5], [-60], [20], [-1]),
    "repeated rows": ([7], [0], [30], [1]),
    "repeated columns": ([30], [1], [7], [0]),
    "one element": ([9], [0], [9], [0]),
    "windows": ([4, 5], [60, 1], [2, 3, 3], [300, 60, 1]),
    "channels last": ([3, 4], [8, 24], [8], [1]),
    "heads": ([6, 8], [16, 96], [16], [1]),
    "five": ([2, 3], [500, 90], [2, 4, 5], [31, 7, 1]),
    "transposed blocks": ([3, 16], [400, 1], [12, 2], [17, 210]),
    "nothing": ([0], [5], [7], [1]),
}
OFFSETS = {"reversed": 700}


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("token", ["f64", "f32", "bf16", "i8", "i1"])
@pytest.mark.parametrize("name", SHAPES)
def test_loads(fast, name, token, pad):
    got, want = round_trip(fast, token, 2000, OFFSETS.get(name, 11), *SHAPES[name], pad=pad)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("run", range(1, 40))
def test_runs_of_every_length(fast, run):
    for token in ("f32", "i8"):
        got, want = round_trip(fast, token, 2000, 3, [8, 3], [90, 41], [run], [1])
        np.testing.assert_array_equal(got, want)


def test_random_loads(fast):
    rng = np.random.default_rng(1)
    for _ in range(150):
        count = int(rng.integers(2, 6))
        extents = rng.integers(1, 7, count)
        strides = [int(s) for s in rng.choice([0, 1, 2, 7, 31, 100], count)]
        at = int(rng.integers(1, count))
        got, want = round_trip(
            fast,
            "f32",
            5000,
            5,
            extents[:at],
            strides[:at],
            extents[at:],
            strides[at:],
            pad=int(rng.integers(0, 3)),
        )
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("token", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"])
@pytest.mark.parametrize(
    "name",
    [
        "dense", "rows", "transposed", "strided", "reversed", "channels last", "transposed blocks",
        "windows",
    ],
)  # fmt: skip
def test_stores(fast, name, token):
    rows, row_strides, columns, column_strides = SHAPES[name]
    r, c = int(np.prod(rows)), int(np.prod(columns))
    offset, size = OFFSETS.get(name, 11), 2000
    base = elements(token, size, 2) % 7
    tile = (elements(token, r * c, 3) % 9).reshape(r, c)
    if token == "bf16":
        base, tile = to_bf16(base.astype(np.float32)), to_bf16(tile.astype(np.float32))
    text = f"""@program t, host
@in b0, {token}, {size}
@in b1, {token}, {r}x{c}
@out o0, {token}, {size}, b0
@func main
  @tile X, am, {token}, {r}x{c}, 1, 0
    DLD b1[0], {r}@{c} | {c}@1, X
    DWAIT X
    DST X, o0[{offset}], {dims_text(rows, row_strides)} | {dims_text(columns, column_strides)}
@ret
"""
    want = base.copy()
    index = as_strided(
        np.arange(size)[offset:],
        (*rows, *columns),
        [8 * s for s in (*row_strides, *column_strides)],
    ).reshape(-1)
    for at, v in zip(index, tile.reshape(-1), strict=True):
        want[at] = v
    got = run_text(fast, text, [base, tile], donate=(0,))[0]
    np.testing.assert_array_equal(got, want)


def test_overlapping_stores_keep_the_order_of_rows(fast):
    tile = np.arange(1, 41, dtype=np.float32).reshape(8, 5)
    text = """@program t, host
@in b0, f32, 5
@in b1, f32, 8x5
@out o0, f32, 5, b0
@func main
  @tile X, am, f32, 8x5, 1, 0
    DLD b1[0], 8@5 | 5@1, X
    DWAIT X
    DST X, o0[0], 8@0 | 5@1
@ret
"""
    got = run_text(fast, text, [np.ones(5, np.float32), tile], donate=(0,))[0]
    np.testing.assert_array_equal(got, tile[-1])


@pytest.mark.parametrize("token", ["f32", "bf16", "i64"])
@pytest.mark.parametrize("index_token", ["i64", "i32"])
@pytest.mark.parametrize("columns", [1, 3, 64, 100])
def test_row_gathers(fast, token, index_token, columns):
    rng = np.random.default_rng(4)
    table = elements(token, 20 * 128).reshape(20, 128)
    index = rng.integers(0, 20, (3, 4)).astype(NUMPY[index_token])
    text = f"""@program t, host
@in b0, {token}, 20x128
@in b1, {index_token}, 3x4
@out o0, {token}, 12x{columns}
@func main
  @tile I, am, {index_token}, 3x6, 1, 0
  @tile X, am, {token}, 12x{columns + 1}, 1, 256
    DLD b1[0], 3@4 | 4@1, I
    DWAIT I
    DGA b0[5], I, 128 | {columns}@1, X
    DWAIT X
    DST X, o0[0], 12@{columns} | {columns}@1
@ret
"""
    got = run_text(fast, text, [table, index])[0]
    np.testing.assert_array_equal(
        got, table.reshape(-1)[index.reshape(-1, 1) * 128 + 5 + np.arange(columns)]
    )


@pytest.mark.parametrize("token", ["f32", "f16", "i64"])
@pytest.mark.parametrize("name", ["", ".ADD", ".MUL", ".MIN", ".MAX"])
def test_row_scatters(fast, token, name):
    base = (elements(token, 10 * 8, 5) % 5 + 1).astype(NUMPY[token]).reshape(10, 8)
    rows = (elements(token, 6 * 8, 6) % 5).astype(NUMPY[token]).reshape(6, 8)
    index = np.array([3, 0, 3, 9, 3, 0], np.int64)
    text = f"""@program t, host
@in b0, {token}, 10x8
@in b1, {token}, 6x8
@in b2, i64, 6
@out o0, {token}, 10x8, b0
@func main
  @tile X, am, {token}, 6x8, 1, 0
  @tile I, am, i64, 6x1, 1, 1024
    DLD b1[0], 6@8 | 8@1, X
    DLD b2[0], 6@1 | 1@1, I
    DWAITALL
    DSC{name} X, I, o0[0], 8 | 8@1
@ret
"""
    want = base.copy()
    combine = {
        "": lambda a, b: b,
        ".ADD": np.add,
        ".MUL": np.multiply,
        ".MIN": np.minimum,
        ".MAX": np.maximum,
    }[name]
    for row, at in zip(rows, index, strict=True):
        want[at] = combine(want[at], row)
    np.testing.assert_array_equal(run_text(fast, text, [base, rows, index], donate=(0,))[0], want)


@pytest.mark.parametrize("bad", [-1, 20, 2**40, -(2**62)])
def test_row_index_out_of_range(fast, bad):

    text = """@program t, host
@in b0, f32, 20x8
@in b1, i64, 2
@out o0, f32, 2x8
@func main
  @tile I, am, i64, 2x1, 1, 0
  @tile X, am, f32, 2x8, 1, 64
    DLD b1[0], 2@1 | 1@1, I
    DWAIT I
    DGA b0[0], I, 8 | 8@1, X
    DWAIT X
    DST X, o0[0], 2@8 | 8@1
@ret
"""
    with pytest.raises(MachineError, match=r"line 10.*index .* of row 1 leads outside b0"):
        run_text(fast, text, [np.zeros((20, 8), np.float32), np.array([3, bad])])


@pytest.mark.parametrize(
    "offset, strides",
    [
        (1, "2@8 | 8@1"),
        (-1, "2@8 | 8@1"),
        (0, "2@9 | 8@1"),
        (3, "2@-8 | 4@1"),
        (0, "2@4611686018427387904 | 8@1"),
    ],
)
def test_reaching_outside_is_a_fault_in_fast_mode(fast, offset, strides):

    text = f"""@program t, host
@in b0, f32, 2x8
@scalar s0, i64
@out o0, f32, 1
@func main
  @tile X, am, f32, 2x8, 1, 0
    SADD s0, {offset}, r3
    DLD b0[r3], {strides}, X
@ret
"""
    with pytest.raises(MachineError, match=r"line 8.*reaches elements .* of b0, which has 16"):
        run_text(fast, text, [np.zeros((2, 8), np.float32)], (0,))


@pytest.mark.parametrize("extent", [-1, 9, 2**40])
def test_extents_from_registers_are_checked(fast, extent):

    text = """@program t, host
@in b0, f32, 1000
@scalar s0, i64
@out o0, f32, 1
@func main
  @tile X, am, f32, 4x8, 1, 0
    SMOV s0, r3
    DLD b0[0], r3@0 | 8@1, X
@ret
"""
    with pytest.raises(MachineError, match="line 8.*(negative|exceed)"):
        run_text(fast, text, [np.zeros(1000, np.float32)], (extent,))


def test_copies_between_tiles(fast):
    data = np.arange(60, dtype=np.float32).reshape(6, 10)
    text = """@program t, host
@in b0, f32, 6x10
@out o0, f32, 6x10
@func main
  @tile X, am, f32, 8x16, 2, 0
  @tile G, gsm, f32, 6x10, 1, 0
    DLD b0[0], 6@10 | 10@1, X[3]
    DWAIT X[1]
    DCP X[-1], G
    DWAIT G
    DCP G, X[2]
    DWAITALL
    DST X[0], o0[0], 6@10 | 10@1
@ret
"""
    np.testing.assert_array_equal(run_text(fast, text, [data])[0], data)


WINDOWS = """@program t, host
@in b0, f32, 4x6
@out o0, f32, 4x6
@func main
  @tile X, {space}, f32, 4x8, 1, 0
  @tile Y, am, f32, 4x7, 1, 256
    DLD b0[0], 4@6 | 6@1, X
    DWAIT X
    DCW X, {dims}, Y
    DWAITALL
    DST Y, o0[0], 4@6 | 6@1
@ret
"""


@pytest.mark.parametrize("space", ["am", "sm", "gsm"])
@pytest.mark.parametrize(("dims", "rows", "columns"), WINDOWS_OF_A_TILE)
def test_windows_of_a_tile_are_copied(fast, checked, dims, rows, columns, space):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    wanted = np.array([[x[i + k, j + l] for k, l in columns] for i, j in rows])
    for machine in (fast, checked):
        np.testing.assert_array_equal(
            run_text(machine, WINDOWS.format(dims=dims, space=space), [x])[0], wanted
        )


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ("3@8 | 6@2", "current extents"),
        ("4@8 | 6@16", "reach element"),
        ("r1@1 | 6@1", "negative"),
        ("r2@1 | 6@1", "exceed"),
        ("4@1 | r2@1 2@0", "exceed tile Y"),
    ],
)
def test_windows_outside_of_a_tile_are_faults(checked, dims, message):
    text = WINDOWS.format(dims=dims, space="am").replace(
        "    DLD", "    SMOV -1, r1\n    SMOV 5, r2\n    DLD"
    )
    with pytest.raises(MachineError, match=message):
        run_text(checked, text, [np.zeros((4, 6), np.float32)])


def test_a_copy_of_windows_is_in_flight_until_it_is_waited_for(checked):
    text = WINDOWS.format(dims="4@8 | 6@1", space="am").replace("    DWAITALL\n", "")
    with pytest.raises(MachineError, match="DWAIT Y"):
        run_text(checked, text, [np.zeros((4, 6), np.float32)])
    text = WINDOWS.format(dims="4@8 | 6@1", space="am").replace("DWAIT X", "SMOV 0, r1")
    with pytest.raises(MachineError, match="DWAIT X"):
        run_text(checked, text, [np.zeros((4, 6), np.float32)])
