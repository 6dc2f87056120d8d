"""Whole kernels: the text of loops, transfers and branches, and their results in checked mode."""

import re

import numpy as np
import pytest

from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.printer import print_tiles
from ftm_backend.ir.tile.reader import TileTextError, read_tiles

RNG = np.random.default_rng(0)


def divide(b, trips):
    """This core's share ``[lower, upper)`` of ``range(trips)``: contiguous, even to within one."""
    core, cores = b.core_id(), b.num_cores()
    return b.div(b.mul(core, trips), cores), b.div(b.mul(b.add(core, 1), trips), cores)


def squares(rows, columns, block, share=True):
    """o0 = b0 * b0, o1 = its row sums, in blocks of rows."""

    def build(b):
        x, y = b.buffer("b0", "f32", rows * columns), b.buffer("o0", "f32", rows * columns)
        s = b.buffer("o1", "f32", rows)
        X, Y, S = (
            b.tile("f32", block, columns),
            b.tile("f32", block, columns),
            b.tile("f32", block, 1),
        )
        trips = -(-rows // block)
        low, high = divide(b, trips) if share else (0, trips)
        with b.for_(low, high) as i:
            row = b.mul(i, block)
            height = b.min(b.sub(rows, row), block)
            b.load(x, b.mul(row, columns), X, 0, [height, columns], [columns, 1], 1)

            def body(v):
                square = Node("arith.mulf", "f32", (v[0], v[0]))
                return [square, square]

            b.map(height, columns, [(X, 0, "full")], [(Y, 0, "full"), (S, 0, "rsum")], body)
            b.store(Y, 0, y, b.mul(row, columns), [height, columns], [columns, 1], 1)
            b.store(S, 0, s, row, [height, 1], [1, 1], 1)

    return build


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "block"), [(1000, 64, 16), (1, 1, 1), (7, 5, 16), (64, 3, 16), (3, 8, 2)]
)
def test_blocks_of_rows_over_the_cores(lab, rows, columns, block, overlap):
    text = lab.text(
        squares(rows, columns, block),
        [("f32", [rows, columns])],
        [("f32", [rows, columns]), ("f32", [rows])],
        overlap=overlap,
    )
    x = RNG.standard_normal((rows, columns), dtype=np.float32)
    for cores in (1, 2, 5):
        got = lab.run(text, [x], cores=cores)
        np.testing.assert_array_equal(got[0], x * x)
        np.testing.assert_allclose(got[1], (x * x).sum(1), rtol=1e-5)


def test_text_of_a_loop(lab):
    text = lab.text(
        squares(40, 8, 16, share=False), [("f32", [40, 8])], [("f32", [40, 8]), ("f32", [40])]
    )
    assert (
        text
        == """\
@program main, host
@in b0, f32, 40x8
@out o0, f32, 40x8
@out o1, f32, 40

@func kernel_0
  @tile T0, am, f32, 16x8, 1, 0
  @tile T1, am, f32, 16x8, 1, 512
  @tile T2, am, f32, 16x1, 1, 1024
    SMOV 0, r0
  LOOP_0: 3, 3
    SMUL r0, 128, r1
    SMUL r0, -16, r2
    SADD r2, 40, r2
    SMIN r2, 16, r2
    DLD b0[r1], r2@8 | 8@1, T0
    DWAIT T0
    DWAIT T1
    DWAIT T2
    @map r2 x 8, T0:v0 -> T1:v1, T2:v1.rsum
      VMUL.F32 v0, v0, v1
    @endmap
    DST T1, o0[r1], r2@8 | 8@1
    SMUL r0, 16, r1
    DST T2, o1[r1], r2@1 | 1@1
    SADD r0, 1, r0
    SLT r0, 3, r1
  [r1] SBR LOOP_0
    DWAITALL
@ret

@func main
    @call kernel_0
@ret
"""
    )


def test_full_blocks_have_no_tail_arithmetic(lab):
    text = lab.text(squares(64, 8, 16), [("f32", [64, 8])], [("f32", [64, 8]), ("f32", [64])])
    assert "SMIN" not in text
    assert "16@8 | 8@1" in text


def test_a_loop_without_trips_does_nothing(lab):
    def build(b):
        x, y = b.buffer("b0", "i64", 1), b.buffer("o0", "f32", 4)
        Y = b.tile("f32", 1, 4)
        b.map(1, 4, [], [(Y, 0, "full")], lambda v: [constant(1.0, "f32")])
        with b.for_(0, b.load_index(x, 0)):
            b.map(
                1,
                4,
                [(Y, 0, "full")],
                [(Y, 0, "full")],
                lambda v: [Node("arith.addf", "f32", (v[0], v[0]))],
            )
        with b.if_(b.compare("eq", b.core_id(), 0)):
            b.store(Y, 0, y, 0, [1, 4], [4, 1], 1)

    text = lab.text(build, [("i64", [1])], [("f32", [4])])
    for trips, value in ((0, 1), (1, 2), (3, 8), (-5, 1)):
        assert lab.run(text, [np.array([trips])])[0].tolist() == [value] * 4
    assert "  [r0] DST" in text.replace("[r1]", "[r0]"), (
        "a branch around one instruction is a predicate"
    )


def matrix_product(m, n, k, mt, nt, kt):
    def build(b):
        A, B, C = b.tile("f32", mt, kt, "sm"), b.tile("f32", kt, nt), b.tile("f32", mt, nt)
        a, bb, c = (
            b.buffer("b0", "f32", m * k),
            b.buffer("b1", "f32", k * n),
            b.buffer("o0", "f32", m * n),
        )
        low, high = divide(b, -(-m // mt))
        with b.for_(low, high) as i:
            mi = b.min(b.sub(m, b.mul(i, mt)), mt)
            with b.for_(0, n, nt) as j:
                nj = b.min(b.sub(n, j), nt)
                b.map(mi, nj, [], [(C, 0, "full")], lambda v: [constant(0.0, "f32")])
                with b.for_(0, k, kt) as p:
                    kp = b.min(b.sub(k, p), kt)
                    b.load(a, b.add(b.mul(i, mt * k), p), A, 0, [mi, kp], [k, 1], 1)
                    b.load(bb, b.add(b.mul(p, n), j), B, 0, [kp, nj], [n, 1], 1)
                    b.mm(A, 0, B, 0, C, 0, acc=True)
                b.store(C, 0, c, b.add(b.mul(i, mt * n), j), [mi, nj], [n, 1], 1)

    return build


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(50, 70, 90), (16, 32, 64), (1, 1, 1), (17, 33, 65)])
def test_a_tiled_matrix_product(lab, m, n, k, overlap):
    text = lab.text(
        matrix_product(m, n, k, 16, 32, 64),
        [("f32", [m, k]), ("f32", [k, n])],
        [("f32", [m, n])],
        overlap=overlap,
    )
    a, b = (
        RNG.standard_normal((m, k), dtype=np.float32),
        RNG.standard_normal((k, n), dtype=np.float32),
    )
    for cores in (1, 2):
        np.testing.assert_allclose(
            lab.run(text, [a, b], cores=cores)[0], a @ b, rtol=1e-4, atol=1e-4
        )


def test_invariant_addresses_leave_their_loop(lab):
    text = lab.text(
        matrix_product(64, 64, 128, 16, 32, 64),
        [("f32", [64, 128]), ("f32", [128, 64])],
        [("f32", [64, 64])],
    )
    inner = text[text.index("LOOP_2") : text.index("SBR LOOP_2")]
    assert len(re.findall(r"^ +S\w+ ", inner, re.MULTILINE)) <= 6, inner


@pytest.mark.parametrize("reduce", ["set", "add", "mul", "min", "max"])
def test_rows_gathered_and_scattered(lab, reduce):
    def build(b):
        table, index = b.buffer("b0", "f32", 10 * 6), b.buffer("b1", "i64", 4)
        out = b.buffer("o0", "f32", 10 * 6)
        I, X = b.tile("i64", 4, 1), b.tile("f32", 4, 6)
        with b.if_(b.compare("eq", b.core_id(), 0)):
            b.load(index, 0, I, 0, [4, 1], [1, 1], 1)
            b.load_rows(table, 1, I, 0, X, 0, 6, 5)
            b.store_rows(X, 0, I, 0, out, 0, 6, 5, reduce)

    text = lab.text(
        build,
        [("f32", [10, 6]), ("i64", [4]), ("f32", [10, 6])],
        [("f32", [10, 6], "b2")],
        in_bounds=True,
    )
    table, base = (RNG.standard_normal((10, 6), dtype=np.float32) for _ in range(2))
    index = np.array([3, 0, 3, 9])
    expected = base.copy()
    function = {
        "set": lambda a, b: b,
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }[reduce]
    for i in index:
        expected[i, :5] = function(expected[i, :5], table[i, 1:])
    np.testing.assert_allclose(
        lab.run(text, [table, index, base], donate=[0])[0], expected, rtol=1e-6
    )


def test_minimum_and_modulo_in_addresses(lab):
    def build(b):
        x, y = b.buffer("b0", "f32", 12), b.buffer("o0", "f32", 12)
        X = b.tile("f32", 1, 1)
        with b.if_(b.compare("eq", b.core_id(), 0)), b.for_(0, 12) as i:
            at = b.add(b.mul(b.rem(b.mul(i, 5), 12), 1), 0)
            to = b.min(i, b.sub(11, b.rem(i, 2)))
            b.load(x, at, X, 0, [1, 1], [1, 1], 1)
            b.store(X, 0, y, to, [1, 1], [1, 1], 1)

    text = lab.text(build, [("f32", [12])], [("f32", [12])])
    x = np.arange(12, dtype=np.float32)
    expected = np.zeros(12, np.float32)
    for i in range(12):
        expected[min(i, 11 - i % 2)] = x[i * 5 % 12]
    np.testing.assert_array_equal(
        lab.run(text, [x])[0][:11], expected[:11]
    )  # nothing writes the last


def test_positions_gathers_and_random_bits_in_maps(lab):
    def build(b):
        x, y = b.buffer("b0", "f32", 40), b.buffer("o0", "f32", 20)
        Y, R = b.tile("f32", 4, 5), b.tile("i32", 4, 5)
        bits = b.buffer("o1", "i32", 20)
        seed = b.scalar("s0", "i64")

        def body(v):
            element = b.gather(x, b.position(39, -10, -1))
            random = Node("ftm.philox", "i32", (b.position(0, 5, 1), seed, seed))
            return [element, random]

        with b.if_(b.compare("eq", b.core_id(), 0)):
            b.map(4, 5, [], [(Y, 0, "full"), (R, 0, "full")], body)
            b.store(Y, 0, y, 0, [4, 5], [5, 1], 1)
            b.store(R, 0, bits, 0, [4, 5], [5, 1], 1)

    text = lab.text(build, [("f32", [40])], [("f32", [20]), ("i32", [20])], ["i64"])
    got = lab.run(text, [np.arange(40, dtype=np.float32)], [0])
    expected = [39 - 10 * r - c for r in range(4) for c in range(5)]
    np.testing.assert_array_equal(got[0], expected)
    assert got[1][:4].astype(np.uint32).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert "VGA.F32 b0[0], v0, v1" in text


def test_a_program_needs_its_facts(lab):
    text = print_tiles(lab.program(lambda b: None), "tiles")
    read_tiles(text)
    with pytest.raises(TileTextError, match="@program"):
        read_tiles(text.replace("@program main, host\n", ""))
