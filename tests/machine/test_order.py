"""SCAN, SORT and MERGE of every type at odd sizes, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend.machine import MachineError
from machine.machine_programs import NUMPY, from_bf16, run_text, to_bf16

CARRY = {token: "f64" if token in ("f64", "f32", "f16", "bf16") else "i64" for token in NUMPY}
SIZES = [(1, 1), (3, 5), (4, 8), (9, 33), (2, 300), (70, 3)]
INTEGERS = ["i64", "i32", "i16", "i8", "u8", "i1"]


def scan_program(
    token: str, op: str, rows: int, columns: int, start: str, down: bool = False, place: str = "Y"
) -> str:
    """The whole matrix in two tiles along the scan, so that the carry goes from one to the next."""
    carry = f"1 x {columns}" if down else f"{rows} x 1"
    length = rows if down else columns
    first = length // 2
    steps = []
    for at, count in ((0, first), (first, length - first)):
        block = f"{count}@{columns} | {columns}@1" if down else f"{rows}@{columns} | {count}@1"
        offset = at * (columns if down else 1)
        steps.append(
            f"    DLD b0[{offset}], {block}, X\n    DWAITALL\n    SCAN.{op}{'.DOWN' if down else ''} X, C, {place}\n"
            f"    DST {place}, o0[{offset}], {block}\n    DWAITALL\n"
        )
    size = CARRY[token]
    return f"""@program t, host
@in b0, {token}, {rows}x{columns}
@out o0, {token}, {rows}x{columns}
@func main
  @tile X, am, {token}, {rows}x{columns + 3}, 1, 0
  @tile Y, am, {token}, {rows}x{columns + 1}, 1, 131072
  @tile C, am, {size}, {carry.replace(" ", "")}, 1, 262144
    @map {carry} -> C:v0
      VMOV.{size.upper()} {start}, v0
    @endmap
{"".join(steps)}@ret
"""


def scanned(op: str, x: np.ndarray, axis: int) -> np.ndarray:
    """The same with numpy, in the carry's type."""
    functions = {
        "ADD": np.add,
        "MUL": np.multiply,
        "MIN": np.minimum,
        "MAX": np.maximum,
        "LSE": np.logaddexp,
    }
    with np.errstate(all="ignore"):
        return functions[op].accumulate(x, axis=axis, dtype=x.dtype)


STARTS = {
    "ADD": ("0", "0"),
    "MUL": ("1", "1"),
    "MIN": ("inf", str(2**63 - 1)),
    "MAX": ("-inf", str(-(2**63))),
    "LSE": ("-inf", ""),
}


@pytest.mark.parametrize("down", [False, True], ids=["along", "down"])
@pytest.mark.parametrize("token", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("op", STARTS)
def test_scans_of_floats(fast, checked, op, token, down):
    for rows, columns in SIZES:
        x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
        x[-1, -1], x[0, 0] = (np.nan, -np.inf) if rows > 4 else (0.5, 1.5)
        stored = to_bf16(x) if token == "bf16" else x.astype(NUMPY[token])
        value = (from_bf16(stored) if token == "bf16" else stored).astype(np.float64)
        want = scanned(op, value, 0 if down else 1)
        want = (
            from_bf16(to_bf16(want.astype(np.float32)))
            if token == "bf16"
            else want.astype(NUMPY[token])
        )
        for machine, place in ((fast, "X"), (fast, "Y"), (checked, "Y")):
            (got,) = run_text(
                machine,
                scan_program(token, op, rows, columns, STARTS[op][0], down, place),
                [stored],
            )
            got = from_bf16(got) if token == "bf16" else got
            np.testing.assert_allclose(
                got.astype(np.float64),
                want.astype(np.float64),
                rtol={"f64": 1e-14, "f32": 1e-6}.get(token, 8e-3),
            )


@pytest.mark.parametrize("token", INTEGERS)
@pytest.mark.parametrize("op", ["ADD", "MUL", "MIN", "MAX"])
def test_scans_of_integers(fast, op, token):
    for rows, columns in SIZES:
        x = (
            np.random.default_rng(columns)
            .integers(-100 if token[0] == "i" else 0, 100, (rows, columns))
            .astype(NUMPY[token])
        )
        for down in (False, True):
            (got,) = run_text(
                fast, scan_program(token, op, rows, columns, STARTS[op][1], down), [x]
            )
            np.testing.assert_array_equal(
                got, scanned(op, x.astype(np.int64), 0 if down else 1).astype(NUMPY[token])
            )


def test_the_carry_must_fit_the_tile(fast):
    text = scan_program("f32", "ADD", 3, 4, "0").replace("@map 3 x 1", "@map 2 x 1")
    with pytest.raises(MachineError, match="the carry of 3x2 is 3x1, but C holds 2x1"):
        run_text(fast, text, [np.ones((3, 4), np.float32)])


def sort_program(rows: int, columns: int, place: str) -> str:
    return f"""@program t, host
@in b0, i64, {rows}x{columns}
@out o0, i64, {rows}x{columns}
@func main
  @tile X, am, i64, {rows}x{columns + 1}, 1, 0
  @tile Y, gsm, i64, {rows}x{columns + 2}, 1, 0
    DLD b0[0], {rows}@{columns} | {columns}@1, X
    DWAITALL
    SORT X, {place}
    DST {place}, o0[0], {rows}@{columns} | {columns}@1
@ret
"""


def keys(kind: str, rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(rows * columns)
    if kind == "random":
        return rng.integers(-(2**63), 2**63, (rows, columns), dtype=np.int64)
    if kind == "few":
        return rng.integers(-2, 2, (rows, columns))
    if kind == "placed":  # a key above a position
        return rng.integers(-(2**31), 2**31, (rows, columns)) << 32 | np.arange(columns)
    if kind == "mixed":  # lower bytes that ascend now and then
        return np.sort(rng.integers(0, 2**20, (rows, columns)), 1) * 257 % 65536
    order = np.arange(rows * columns).reshape(rows, columns)
    return order if kind == "ascending" else -order


@pytest.mark.parametrize("place", ["X", "Y"])
@pytest.mark.parametrize("kind", ["random", "few", "placed", "mixed", "ascending", "descending"])
def test_sorts(fast, kind, place):
    for rows, columns in [(1, 1), (3, 2), (2, 40), (2, 41), (5, 1000), (1, 70001)]:
        x = keys(kind, rows, columns)
        (got,) = run_text(fast, sort_program(rows, columns, place), [x])
        np.testing.assert_array_equal(got, np.sort(x, 1))


@pytest.mark.parametrize("kept", [1, 2, 7, 39, 40])
def test_a_narrow_tile_takes_the_least(fast, checked, kept):
    text = (
        sort_program(3, 41, "Y")
        .replace("3x43", f"3x{kept}")
        .replace("o0, i64, 3x41", f"o0, i64, 3x{kept}")
    )
    text = text.replace("DST Y, o0[0], 3@41 | 41@1", f"DST Y, o0[0], 3@{kept} | {kept}@1")
    for kind in ("random", "few", "ascending", "descending"):
        x = keys(kind, 3, 41)
        x[0] = 2**63 - 1
        for machine in (fast, checked):
            np.testing.assert_array_equal(run_text(machine, text, [x])[0], np.sort(x, 1)[:, :kept])


def test_sorts_in_checked_mode(checked):
    x = keys("random", 3, 50)
    for place in ("X", "Y"):
        np.testing.assert_array_equal(
            run_text(checked, sort_program(3, 50, place), [x])[0], np.sort(x, 1)
        )


def merge_program(rows: int, a: int, b: int) -> str:
    return f"""@program t, host
@in b0, i64, {rows}x{max(a, 1)}
@in b1, i64, {rows}x{max(b, 1)}
@out o0, i64, {rows}x{a + b}
@func main
  @tile A, am, i64, {rows}x{a + 1}, 1, 0
  @tile B, sm, i64, {rows}x{b + 1}, 1, 0
  @tile Y, gsm, i64, {rows}x{a + b + 1}, 1, 0
    DLD b0[0], {rows}@{max(a, 1)} | {a}@1, A
    DLD b1[0], {rows}@{max(b, 1)} | {b}@1, B
    DWAITALL
    MERGE A, B, Y
    DST Y, o0[0], {rows}@{a + b} | {a + b}@1
@ret
"""


@pytest.mark.parametrize("kind", ["random", "few", "ascending"])
@pytest.mark.parametrize(
    "a, b", [(1, 1), (0, 5), (5, 0), (0, 0), (7, 3), (2, 400), (333, 334), (1000, 1)]
)
def test_merges(fast, checked, kind, a, b):
    for machine in (fast, checked):
        x, y = (np.sort(keys(kind, 3, max(n, 1)), 1) for n in (a, b))
        (got,) = run_text(machine, merge_program(3, a, b), [x, y])
        np.testing.assert_array_equal(got, np.sort(np.concatenate([x[:, :a], y[:, :b]], 1), 1))


@pytest.mark.parametrize(
    "line, replacement, message",
    [
        ("MERGE A, B, Y", "MERGE A, B, A", "Y must not be A or B"),
        ("MERGE A, B, Y", "SCAN A, B, Y", "needs an operation"),
        ("MERGE A, B, Y", "SCAN.LSE A, B, Y", "SCAN.LSE takes floats"),
        ("MERGE A, B, Y", "SCAN.ADD A, A, Y", "the carry must not be X or Y"),
        ("am, i64", "am, i32", "takes tiles of i64"),
    ],
)
def test_what_the_assembler_refuses(line, replacement, message):
    from ftm_backend import assembler
    from ftm_backend.ir import asm

    text = merge_program(1, 2, 2).replace(
        "@in b0, i64", "@in b0, i32" if line == "am, i64" else "@in b0, i64"
    )
    with pytest.raises(asm.AsmError, match=message):
        assembler.assemble(text.replace(line, replacement))


def test_what_the_machine_refuses(fast):
    with pytest.raises(MachineError, match="1x4 exceeds tile Y, which is 1x3"):
        text = (
            merge_program(1, 2, 2)
            .replace("gsm, i64, 1x5", "gsm, i64, 1x3")
            .replace("1@4 | 4@1", "1@4 | 3@1")
        )
        run_text(fast, text, [np.zeros((1, 2), np.int64)] * 2)
