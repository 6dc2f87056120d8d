"""Multi-buffering: loads move one iteration ahead where nothing forbids it, and results stay the
same."""

import dataclasses

import numpy as np
import pytest

from ftm_backend.codegen.multi_buffer import BufferAliases, overlap
from ftm_backend.ir.asm.program import BufferDirective
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.kernel_tree import TileBranch, TileLoop


def double(b, source, target):
    b.map(
        1,
        8,
        [(source, 0, "full")],
        [(target, 0, "full")],
        lambda v: [Node("arith.addf", "f32", (v[0], v[0]))],
    )


def stream(source="b0", target="o0", stride=8, ahead=0):
    """target[8 i + ahead] = 2 * source[stride i] in blocks of 8, seven times on one core."""

    def build(b):
        X, Y = b.tile("f32", 1, 8), b.tile("f32", 1, 8)
        with b.if_(b.compare("eq", b.core_id(), 0)), b.for_(0, 7) as i:
            b.load(b.buffer(source, "f32", 64), b.mul(i, stride), X, 0, [1, 8], [8, 1], 1)
            double(b, X, Y)
            b.store(Y, 0, b.buffer(target, "f32", 64), b.add(b.mul(i, 8), ahead), [1, 8], [8, 1], 1)

    return build


def loop_of(kernel):
    (branch,) = kernel.body
    return next(statement for statement in branch.body if isinstance(statement, TileLoop))


def depths(lab, build, aliases=None, machine=None):
    kernel = lab.kernel(build)
    overlap(kernel, machine or lab.overlapping, aliases or BufferAliases())
    return {tile.name: tile.depth for tile in kernel.tiles}, kernel


def test_a_stream_is_pipelined(lab):
    found, kernel = depths(lab, stream())
    assert found == {"T0": 2, "T1": 2}
    loop = loop_of(kernel)
    assert isinstance(loop.body[0], TileBranch) and loop.body[0].body[0].kind == "load"
    assert [s.kind for s in kernel.body[0].body if not isinstance(s, TileLoop)] == ["load"]


def test_results_stay_the_same(lab):
    x = np.arange(64, dtype=np.float32)
    for overlapped in (False, True):
        text = lab.text(stream(), [("f32", [64])], [("f32", [64])], overlap=overlapped)
        np.testing.assert_array_equal(lab.run(text, [x])[0][:56], 2 * x[:56])
    assert text.count("DLD") == 2


def test_an_update_in_place_walks_the_same_blocks_and_may_be_pipelined(lab):
    aliases = BufferAliases()
    aliases.add_alias("o0", "b0")
    assert depths(lab, stream(), aliases)[0] == {"T0": 2, "T1": 2}
    text = lab.text(stream(), [("f32", [64])], [("f32", [64], "b0")], overlap=True)
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(lab.run(text, [x.copy()], donate=[0])[0][:56], 2 * x[:56])


def columns(width, step, pitch=40, rows=5, trips=4):
    """o0[r pitch + step i + c] = 2 * b0[the same] for c below width and all rows, some columns in
    each iteration on one core."""

    def build(b):
        X, Y = b.tile("f32", rows, width), b.tile("f32", rows, width)
        with b.if_(b.compare("eq", b.core_id(), 0)), b.for_(0, trips) as i:
            b.load(
                b.buffer("b0", "f32", rows * pitch),
                b.mul(i, step),
                X,
                0,
                [rows, width],
                [pitch, 1],
                1,
            )
            b.map(
                rows,
                width,
                [(X, 0, "full")],
                [(Y, 0, "full")],
                lambda v: [Node("arith.addf", "f32", (v[0], v[0]))],
            )
            b.store(
                Y,
                0,
                b.buffer("o0", "f32", rows * pitch),
                b.mul(i, step),
                [rows, width],
                [pitch, 1],
                1,
            )

    return build


@pytest.mark.parametrize(
    ("width", "step", "pitch", "early"),
    [
        (10, 10, 40, True),
        (8, 10, 40, True),
        (10, 10, 20, True),
        (10, 10, 19, False),  # the next columns are the next row's first
        (11, 10, 40, False),  # and those of the iteration before
        (10, 40, 40, False),  # rows below rows
        (10, 50, 40, False),
    ],
)
def test_columns_that_lie_beside_those_that_are_stored_are_fetched_early(
    lab, width, step, pitch, early
):
    aliases = BufferAliases()
    aliases.add_alias("o0", "b0")
    assert (depths(lab, columns(width, step, pitch), aliases)[0]["T0"] == 2) == early


@pytest.mark.parametrize("width", [7, 10])
def test_columns_in_place(lab, width):
    text = lab.text(columns(width, 10), [("f32", [200])], [("f32", [200], "b0")], overlap=True)
    x = np.arange(200, dtype=np.float32)
    expected = np.where(np.arange(200) % 40 % 10 < width, 2 * x, x)
    np.testing.assert_array_equal(lab.run(text, [x.copy()], donate=[0])[0], expected)


@pytest.mark.parametrize(("stride", "ahead"), [(4, 0), (8, 8), (0, 0)])
def test_a_load_of_what_the_iteration_before_stored_stays(lab, stride, ahead):
    aliases = BufferAliases()
    aliases.add_alias("o0", "b0")
    # Loading early would miss what the store of this iteration writes.
    assert depths(lab, stream(stride=stride, ahead=ahead), aliases)[0]["T0"] == 1


def test_regions_of_the_arena_that_overlap_forbid_it(lab):
    aliases = BufferAliases()
    aliases.add_region(BufferDirective("arena", "b0", "f32", (64,), offset=0))
    aliases.add_region(BufferDirective("arena", "o0", "f32", (64,), offset=128))
    assert depths(lab, stream(), aliases)[0]["T0"] == 1
    distinct = BufferAliases()
    distinct.add_region(BufferDirective("arena", "b0", "f32", (64,), offset=0))
    distinct.add_region(BufferDirective("arena", "o0", "f32", (64,), offset=256))
    assert depths(lab, stream(), distinct)[0]["T0"] == 2


def test_a_ring_that_does_not_fit_is_not_made(lab):
    small = dataclasses.replace(lab.overlapping, am_bytes=128)
    assert depths(lab, stream(), machine=small)[0] == {"T0": 1, "T1": 1}
    some = dataclasses.replace(lab.overlapping, am_bytes=192)
    assert sorted(depths(lab, stream(), machine=some)[0].values()) == [1, 2]


def test_a_tile_that_is_loaded_and_stored_gets_three_slots(lab):
    def build(b):
        X = b.tile("f32", 1, 8)
        with b.if_(b.compare("eq", b.core_id(), 0)), b.for_(0, 7) as i:
            b.load(b.buffer("b0", "f32", 64), b.mul(i, 8), X, 0, [1, 8], [8, 1], 1)
            b.store(X, 0, b.buffer("o0", "f32", 64), b.mul(i, 8), [1, 8], [8, 1], 1)

    assert depths(lab, build)[0] == {"T0": 3}
    text = lab.text(build, [("f32", [64])], [("f32", [64])], overlap=True)
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(lab.run(text, [x])[0][:56], x[:56])


def test_a_tile_used_elsewhere_or_carried_stays(lab):
    def build(b):
        X, Y = b.tile("f32", 1, 8), b.tile("f32", 1, 8)
        with b.for_(0, 7) as i:
            b.load(b.buffer("b0", "f32", 64), b.mul(i, 8), X, 0, [1, 8], [8, 1], 1)
            b.map(1, 8, [(X, 0, "full"), (Y, 0, "full")], [(Y, 0, "full")], lambda v: [v[0]])
        double(b, X, Y)

    assert depths(lab, build)[0] == {"T0": 1, "T1": 1}


def test_an_address_from_memory_stays_behind_its_load(lab):
    def build(b):
        X = b.tile("f32", 1, 8)
        with b.for_(0, 7) as i:
            at = b.load_index(b.buffer("b1", "i64", 8), i)
            b.load(b.buffer("b0", "f32", 64), at, X, 0, [1, 8], [8, 1], 1)
            double(b, X, X)

    assert depths(lab, build)[0] == {"T0": 1}
