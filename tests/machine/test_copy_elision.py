"""Maps and products that read and write buffers instead of tiles, against checked mode, which
copies.

Each program is one that may, or must not, skip the copies: donated inputs are the hard cases,
because the map then writes what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ftm_backend.machine import Machine, MachineError
from machine.conftest import Guarded
from machine.machine_programs import NUMPY, run_text, to_bf16

# Rows are long enough that a strip is a part of a row.
ROWS, COLUMNS = 6, 700
ALL = f"{ROWS}@{COLUMNS} | {COLUMNS}@1"

SHAPES = [(ROWS, COLUMNS)] * 4 + [(ROWS, 1)] + [(1, ROWS * COLUMNS)] * 2
STEP = ROWS * COLUMNS * 4 // 64 * 64 + 64

HEADER = f"""@program test, host
@in b0, f32, {ROWS}x{COLUMNS}
@in b1, f32, {ROWS}x{COLUMNS}
@out o0, f32, {ROWS}x{COLUMNS}, b0
@out o1, f32, {ROWS}x{COLUMNS}, b1
@func main
""" + "".join(
    f"  @tile {name}, am, f32, {rows}x{columns}, 1, {k * STEP}\n"
    for k, (name, (rows, columns)) in enumerate(
        zip(["X", "Y", "P", "Q", "S", "X1", "P1"], SHAPES, strict=True)
    )
)

LOADS = f"    DLD b0[0], {ALL}, X\n    DLD b1[0], {ALL}, Y\n    DWAITALL\n"
STORES = f"    DST P, o0[0], {ALL}\n    DST Q, o1[0], {ALL}\n"
BOTH = f"    @map {ROWS} x {COLUMNS}, X:v0, Y:v1 -> P:v100, Q:v101\n"
REST = f"    DLD b1[0], {ALL}, Y\n    DWAIT Y\n    DST Y, o1[0], {ALL}\n"


def one_row(row: int, size: int = 1) -> str:
    return f"{size}@{COLUMNS} | {COLUMNS}@1"


PROGRAMS = {
    "each output has its own input": f"""{LOADS}{BOTH}
      VMUL.F32 v0, 2.0, v100
      VADD.F32 v1, v0, v101
    @endmap
{STORES}""",
    "each output overwrites the other's input": f"""{LOADS}{BOTH}
      VADD.F32 v1, 1.0, v100
      VMUL.F32 v0, 2.0, v101
    @endmap
{STORES}""",
    "a kernel call in between": f"""{LOADS}{BOTH}
      VADD.F32 v0, 1.0, v2
      VSIN.F32 v2, v3
      VADD.F32 v3, v1, v100
      VMUL.F32 v0, v3, v101
    @endmap
{STORES}""",
    "a row of the output is read for every row": f"""
    DLD b0[0], {ALL}, X
    DLD b0[0], {one_row(0)}, Y
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0, Y:v1.row -> P:v100
      VADD.F32 v0, v1, v100
    @endmap
    DST P, o0[0], {ALL}
{REST.replace("Y", "Q")}""",
    "the output is shifted by one element": f"""
    DLD b0[0], 1@1 | {ROWS * COLUMNS - 1}@1, X1
    DWAITALL
    @map 1 x {ROWS * COLUMNS - 1}, X1:v0 -> P1:v100
      VADD.F32 v0, 1.0, v100
    @endmap
    DST P1, o0[1], 1@1 | {ROWS * COLUMNS - 1}@1
{REST}""",
    "the load is transposed": f"""
    DLD b0[0], {ROWS}@1 | {COLUMNS}@{ROWS}, X
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0 -> P:v100
      VNEG.F32 v0, v100
    @endmap
    DST P, o0[0], {ALL}
{REST}""",
    "every row is the same": f"""
    DLD b0[{COLUMNS}], {ROWS}@0 | {COLUMNS}@1, X
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0 -> P:v100
      VNEG.F32 v0, v100
    @endmap
    DST P, o0[0], {ALL}
{REST}""",
    "rows are apart, and part of a row is left": f"""
    DLD b0[3], {ROWS // 2}@{2 * COLUMNS} | 50@1, X
    DWAITALL
    @map {ROWS // 2} x 50, X:v0 -> P:v100
      VMUL.F32 v0, 3.0, v100
    @endmap
    DST P, o0[3], {ROWS // 2}@{2 * COLUMNS} | 50@1
{REST}""",
    "two maps read one load": f"""
    DLD b0[0], {ALL}, X
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0 -> S:v0.rmax
    @endmap
    @map {ROWS} x {COLUMNS}, X:v0, S:v1.col -> P:v100
      VSUB.F32 v0, v1, v2
      VEXP.F32 v2, v100
    @endmap
    DST P, o0[0], {ALL}
{REST}""",
    "the input is read again after the store": f"""
    DLD b0[0], {ALL}, X
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0 -> P:v100
      VADD.F32 v0, 1.0, v100
    @endmap
    DST P, o0[0], {ALL}
    @map {ROWS} x {COLUMNS}, X:v0 -> Q:v100
      VMUL.F32 v0, 2.0, v100
    @endmap
    DST Q, o1[0], {ALL}
""",
    "the result is read again after the store": f"""
    DLD b0[0], {ALL}, X
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0 -> P:v100
      VADD.F32 v0, 1.0, v100
    @endmap
    DST P, o0[0], {ALL}
    @map {ROWS} x {COLUMNS}, P:v0 -> Q:v100
      VMUL.F32 v0, 2.0, v100
    @endmap
    DST Q, o1[0], {ALL}
""",
    "a reduction reads the input that an output overwrites": f"""
    DLD b0[0], {ALL}, X
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0 -> P:v100, S:v0.rsum
      VADD.F32 v0, 1.0, v100
    @endmap
    DST P, o0[0], {ALL}
{REST}
    DST S, o1[0], {ROWS}@{COLUMNS} | 1@1
""",
    "a loop over rows": f"""
    SMOV 0, r1
  LOOP_main_0: 1, {ROWS}
    SMUL r1, {COLUMNS}, r2
    DLD b0[r2], {one_row(0)}, X
    DLD b1[r2], {one_row(0)}, Y
    DWAITALL
    @map 1 x {COLUMNS}, X:v0, Y:v1 -> P:v100, Q:v101, S:v0.rsum
      VMUL.F32 v0, v1, v100
      VSUB.F32 v0, v1, v101
    @endmap
    DST P, o0[r2], {one_row(0)}
    DST Q, o1[r2], {one_row(0)}
    SADD r1, 1, r1
    SLT r1, {ROWS}, r3
  [r3] SBR LOOP_main_0
""",
    "a load that does not always run": f"""
    DLD b1[0], {ALL}, X
    SMOV 0, r1
  [r1] DLD b0[0], {ALL}, X
    DWAITALL
    @map {ROWS} x {COLUMNS}, X:v0 -> P:v100, Q:v0
      VADD.F32 v0, 1.0, v100
    @endmap
{STORES}""",
}


@pytest.mark.parametrize("donated", [(), (0,), (0, 1)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_direct_access(
    fast: Machine, checked: Machine, name: str, donated: tuple[int, ...]
) -> None:
    text = HEADER + PROGRAMS[name] + "    DWAITALL\n@ret\n"
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2)]
    results = []
    for machine in (checked, fast):
        given = [a.copy() for a in arrays]
        results.append(run_text(machine, text, given, donate=donated))
    written = slice(None)
    if name.startswith(("the output is shifted", "rows are apart")) and 0 not in donated:
        written = slice(0, 0)  # the rest of a new output is arbitrary
    np.testing.assert_array_equal(results[1][0][written], results[0][0][written])
    np.testing.assert_array_equal(results[1][1], results[0][1])


@pytest.mark.parametrize("donated", [(), (0,)])
@pytest.mark.parametrize("last", [4, 9])
def test_gather(fast: Machine, checked: Machine, donated: tuple[int, ...], last: int) -> None:
    """Rows go to the output at once; not if the output is what is read, or a fault may undo it."""
    text = """@program test, host
@in b0, f32, 8x40
@in b1, i64, 8
@out o0, f32, 8x40, b0
@func main
  @tile I, am, i64, 8x1, 1, 0
  @tile X, am, f32, 8x40, 1, 64
    DLD b1[0], 8@1 | 1@1, I
    DWAIT I
    DGA b0[0], I, 40 | 40@1, X
    DWAIT X
    DST X, o0[0], 8@40 | 40@1
    DWAITALL
@ret
"""
    table = np.arange(320, dtype=np.float32).reshape(8, 40)
    rows = np.array([3, 3, 0, 7, 1, 1, 2, last])
    for machine in (checked, fast):
        given = table.copy()
        if last < 8:
            (result,) = run_text(machine, text, [given, rows], donate=donated)
            np.testing.assert_array_equal(result, table[rows])
        else:
            with pytest.raises(MachineError, match="index out of range"):
                run_text(machine, text, [given, rows], donate=donated)
            np.testing.assert_array_equal(given, table)


WEIGHTS, WIDTH, DEPTH = 40, 70, 33
"""Rows and columns of the matrix in memory; a product of few rows reads WIDTH x DEPTH of it."""


def product(
    token: str, rows: int, suffix: str, between: str = "", offset: int = 0
) -> tuple[str, tuple[int, int]]:
    """A program that loads a matrix and multiplies it, and the shape of the result."""
    n, k = (WEIGHTS, DEPTH) if suffix else (WIDTH - offset, WEIGHTS)
    tile = (n, k) if suffix else (k, n)
    text = f"""@program test, host
@in b0, {token}, {rows}x{k}
@in b1, {token}, {WEIGHTS}x{WIDTH}
@out o0, f32, {rows}x{n}
@out o1, {token}, {WEIGHTS}x{WIDTH}, b1
@func main
  @tile A, sm, {token}, {rows}x{k}, 1, 0
  @tile B, am, {token}, {tile[0]}x{tile[1] + 1}, 1, 0
  @tile C, am, f32, {rows}x{n}, 1, 16384
  @tile Z, am, {token}, {WEIGHTS}x{WIDTH}, 1, 32768
    DLD b0[0], {rows}@{k} | {k}@1, A
    DLD b1[{offset}], {tile[0]}@{WIDTH} | {tile[1]}@1, B
    DWAITALL
{between}
    MM{suffix} A, B, C
    DST C, o0[0], {rows}@{n} | {n}@1
    DWAITALL
    DLD b1[0], {WEIGHTS}@{WIDTH} | {WIDTH}@1, Z
    DWAIT Z
    DST Z, o1[0], {WEIGHTS}@{WIDTH} | {WIDTH}@1
    DWAITALL
@ret
"""
    return text, (rows, k)


TWICE = f"""
    MM A, B, C
    DLD b1[0], {WEIGHTS}@{WIDTH} | {WIDTH - 3}@1, B
    DWAIT B
"""
OVERWRITE = f"""
    @map {WEIGHTS} x {WIDTH} -> Z:v0
      VMOV.F32 5.0, v0
    @endmap
    DST Z, o1[0], {WEIGHTS}@{WIDTH} | {WIDTH}@1
"""


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("suffix", ["", ".TB"])
@pytest.mark.parametrize("rows", [1, 3, 8, 9])
@pytest.mark.parametrize("token", ["f32", "f16", "bf16"])
def test_products_read_a_matrix_in_memory(
    fast: Machine, checked: Machine, token: str, rows: int, suffix: str, offset: int
) -> None:
    """With nine rows the product copies the matrix first."""
    check_product(fast, checked, token, *product(token, rows, suffix, offset=offset))


def test_product_does_not_read_what_a_store_has_overwritten(
    fast: Machine, checked: Machine
) -> None:
    check_product(fast, checked, "f32", *product("f32", 1, "", OVERWRITE), donate=(1,))


@pytest.mark.parametrize("rows", [1, 9])
def test_each_load_of_a_tile_is_read_by_the_product_behind_it(
    fast: Machine, checked: Machine, rows: int
) -> None:
    check_product(fast, checked, "f32", *product("f32", rows, "", TWICE, offset=3))


def check_product(
    fast: Machine,
    checked: Machine,
    token: str,
    text: str,
    shape: tuple[int, int],
    donate: tuple[int, ...] = (),
) -> None:
    rng = np.random.default_rng(2)
    arrays = [
        rng.standard_normal(s).astype(np.float32).astype(NUMPY[token])
        if token != "bf16"
        else to_bf16(rng.standard_normal(s))
        for s in (shape, (WEIGHTS, WIDTH))
    ]
    results = [
        run_text(machine, text, [a.copy() for a in arrays], donate=donate)
        for machine in (checked, fast)
    ]
    np.testing.assert_array_equal(results[1][0], results[0][0])
    np.testing.assert_array_equal(results[1][1], results[0][1])


@dataclass(frozen=True)
class Windows:
    """Square windows of an image, as a tile of ``channels * taps**2`` rows or of the transpose.

    Attributes:
        channels: Channels of the image.
        taps: Width of a window.
        lines, run: Windows in a column of the image, and in a line of it.
        step: Distance of windows in a line.
    """

    channels: int
    taps: int
    lines: int
    run: int
    step: int = 1

    @property
    def image(self) -> tuple[int, int, int]:
        """Channels, height and width; the last window ends with the image."""
        width = (self.run - 1) * self.step + self.taps
        return self.channels, self.lines + self.taps - 1, width

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the tile."""
        return self.channels * self.taps**2, self.lines * self.run

    @property
    def load(self) -> str:
        """The extents of the DLD."""
        _, height, width = self.image
        rows = f"{self.channels}@{height * width} {self.taps}@{width} {self.taps}@1"
        return f"{rows} | {self.lines}@{width} {self.run}@{self.step}"

    def of(self, image: np.ndarray) -> np.ndarray:
        """Return the tile."""
        found = np.lib.stride_tricks.sliding_window_view(image, (self.taps, self.taps), (1, 2))
        return found[:, :, :: self.step].transpose(0, 3, 4, 1, 2).reshape(self.shape)


WINDOWS = {
    "runs of vectors": Windows(5, 3, 4, 48),
    "one run": Windows(3, 3, 1, 64),
    "one tap": Windows(7, 1, 3, 32),
    "windows of two": Windows(6, 2, 3, 32),
    "runs that end within a vector": Windows(4, 3, 3, 50),
    "short runs": Windows(4, 3, 3, 12),
    "every second window": Windows(4, 3, 3, 32, 2),
    "channels that share cache sets": Windows(4, 1, 16, 64, 1),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("is_a", [False, True], ids=["b", "a"])
@pytest.mark.parametrize(
    ("name", "other"),
    [(n, k) for n, w in WINDOWS.items() for k in (3, 9, 16, 61, 100, 200) if k * w.lines < 2000],
)
def test_products_read_windows_in_memory(
    fast: Machine,
    checked: Machine,
    guarded: Guarded,
    name: str,
    other: int,
    is_a: bool,
    accumulate: bool,
) -> None:
    """With more rows or columns of the other operand, the product copies the windows first."""
    windows = WINDOWS[name]
    rows, columns = windows.shape
    left, right = ((rows, columns), (columns, other)) if is_a else ((other, rows), (rows, columns))
    shape = right if is_a else left
    load = {True: ("X", "Y"), False: ("Y", "X")}[is_a]
    text = f"""@program test, host
@in b0, f32, {"x".join(map(str, windows.image))}
@in b1, f32, {shape[0]}x{shape[1]}
@out o0, f32, {left[0]}x{right[1]}
@func main
  @tile X, sm, f32, {left[0]}x{left[1] + 3}, 1, 0
  @tile Y, am, f32, {right[0]}x{right[1] + 1}, 1, 0
  @tile C, am, f32, {left[0]}x{right[1]}, 1, {-(-right[0] * (right[1] + 1) // 16) * 64}
    DLD b0[0], {windows.load}, {load[0]}
    DLD b1[0], {shape[0]}@{shape[1]} | {shape[1]}@1, {load[1]}
    DWAITALL
    MM X, Y, C
{"    MM.ACC X, Y, C" if accumulate else ""}
    DST C, o0[0], {left[0]}@{right[1]} | {right[1]}@1
    DWAITALL
@ret
"""
    rng = np.random.default_rng(3)
    image, matrix = (rng.standard_normal(s).astype(np.float32) for s in (windows.image, shape))
    image[-1, -1, -1] = np.inf
    image[0, 0, 0] = np.nan
    results = [
        run_text(machine, text, [guarded(image), guarded(matrix)])[0] for machine in (checked, fast)
    ]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-4)
    tile, matrix = windows.of(image).astype(np.float64), matrix.astype(np.float64)
    with np.errstate(invalid="ignore"):
        product = tile @ matrix if is_a else matrix @ tile
    expected = product * (2 if accumulate else 1)
    np.testing.assert_allclose(results[1], expected, rtol=1e-5, atol=1e-4)


SIDE = 96
"""Rows and columns of square operands; a product of so many rows reads B in its buffer."""
SQUARE = f"{SIDE}@{SIDE} | {SIDE}@1"
STORED = {
    "whole": (SQUARE, 0, SIDE, 1),
    "rows apart": (f"{SIDE}@{2 * SIDE} | {SIDE}@1", 3, 2 * SIDE, 1),
    "transposed": (f"{SIDE}@1 | {SIDE}@{SIDE}", 0, 1, SIDE),
    "rows backwards": (f"{SIDE}@-{SIDE} | {SIDE}@1", SIDE * (SIDE - 1), -SIDE, 1),
}
"""Where a product is stored: loops, the first element, and the distances of rows and columns."""
PRODUCTS = [("bf16", None)] + [(token, over) for token in ("f32", "f64") for over in (None, 0, 1)]
"""Types of the operands, and the input that the result overwrites."""


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("suffix", ["", ".TA", ".TB"])
@pytest.mark.parametrize(("token", "over"), PRODUCTS)
def test_products_write_to_the_buffer(
    fast: Machine, checked: Machine, token: str, over: int | None, suffix: str, stored: str
) -> None:
    """A product that reads what it overwrites stores afterwards."""
    loops, first, row, column = STORED[stored]
    result = "f64" if token == "f64" else "f32"
    text = f"""@program test, host
@in b0, {token}, {2 * SIDE}x{SIDE}
@in b1, {token}, {2 * SIDE}x{SIDE}
@out o0, {result}, {2 * SIDE}x{SIDE}{f", b{over}" if over is not None else ""}
@func main
  @tile A, sm, {token}, {SIDE}x{SIDE + 5}, 1, 0
  @tile B, am, {token}, {SIDE}x{SIDE}, 1, 0
  @tile C, am, {result}, {SIDE}x{SIDE + 3}, 1, {8 * SIDE * SIDE}
    DLD b0[0], {SQUARE}, A
    DLD b1[{2 * SIDE}], {SQUARE}, B
    DWAITALL
    MM{suffix} A, B, C
    DST C, o0[{first}], {loops}
    DWAITALL
@ret
"""
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal((2 * SIDE, SIDE)).astype(np.float32) for _ in range(2)]
    given = [to_bf16(a) if token == "bf16" else a.astype(NUMPY[token]) for a in arrays]
    donated = () if over is None else (0,)
    slow, quick = (
        run_text(machine, text, [a.copy() for a in given], donate=donated)[0]
        for machine in (checked, fast)
    )
    rows = np.arange(SIDE)
    written = first + row * rows[:, None] + column * rows
    np.testing.assert_array_equal(quick.ravel()[written], slow.ravel()[written])
    if donated:  # else the rest of the output is arbitrary
        np.testing.assert_array_equal(quick, slow)
    a, b = arrays[0][:SIDE].astype(np.float64), arrays[1][2 : SIDE + 2].astype(np.float64)
    expected = {"": a @ b, ".TA": a.T @ b, ".TB": a @ b.T}[suffix]
    bound = 0.1 if token == "bf16" else 1e-4
    np.testing.assert_allclose(quick.ravel()[written], expected, rtol=bound / 10, atol=bound)
