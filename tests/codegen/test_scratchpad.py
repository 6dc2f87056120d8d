"""Scratchpad plans: what lives at once never shares bytes, what does not may, and too much is
explained."""

import dataclasses
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftm_backend.codegen import allocate_scratchpad
from ftm_backend.codegen.allocate_scratchpad import live_intervals, plan
from ftm_backend.codegen.errors import CodegenError
from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.symbolic import ShapeEnv, parse_size


def fill(b, tile, value=1.0):
    b.map(1, 1, [], [(tile, 0, "full")], lambda v: [constant(value, "f32")])


def copy(b, source, target):
    b.map(1, 1, [(source, 0, "full")], [(target, 0, "full")], lambda v: [v[0]])


def stored(b, depth):
    """A loop whose body fills two tiles and stores the second one."""
    first, result = b.tile("f32", 1, 1), b.tile("f32", 1, 1, depth=depth)
    with b.for_(0, 4) as number:
        fill(b, first)
        b.map(1, 1, [], [(result, number, "full")], lambda _: [constant(1.0, "f32")])
        b.store(result, number, b.buffer("o0", "f32", 4), number, [1, 1], [1, 1], 1)


def overlap(a, b):
    return a.space == b.space and a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes


def test_a_chain_of_tiles_takes_the_space_of_two(lab):
    def build(b):
        tiles = [b.tile("f32", 16, 16) for _ in range(6)]
        fill(b, tiles[0])
        for source, target in itertools.pairwise(tiles):
            copy(b, source, target)

    kernel = lab.kernel(build)
    plan(kernel, lab.plain)
    assert max(tile.offset + tile.bytes for tile in kernel.tiles) == 2 * 1024
    assert all(not overlap(a, b) for a, b in zip(kernel.tiles, kernel.tiles[1:], strict=False))


def test_what_a_loop_carries_lives_as_long_as_the_loop(lab):
    def build(b):
        total, part, other = (b.tile("f32", 1, 1) for _ in range(3))
        fill(b, total)
        with b.for_(0, 4):
            fill(b, part)
            b.map(
                1,
                1,
                [(part, 0, "full"), (total, 0, "full")],
                [(total, 0, "full")],
                lambda v: [v[0]],
            )
            fill(b, other)
            copy(b, other, other)
        copy(b, total, total)

    kernel = lab.kernel(build)
    plan(kernel, lab.plain)
    total, part, other = kernel.tiles
    assert not overlap(total, part) and not overlap(total, other)
    assert overlap(part, other)


def test_a_ring_that_is_stored_from_shares_no_bytes_with_the_loop(lab):
    """Else what comes next in the loop would have to wait for its stores."""
    kernel = lab.kernel(lambda b: stored(b, 2))
    plan(kernel, lab.plain)
    first, ring = kernel.tiles
    assert not overlap(first, ring)
    kernel = lab.kernel(lambda b: stored(b, 1))
    plan(kernel, lab.plain)
    assert kernel.tiles[0].offset == kernel.tiles[1].offset


def test_where_dma_works_beside_the_core_no_stored_tile_shares_bytes_with_the_loop_if_there_is_room(
    lab,
):
    for room, shares in ((lab.overlapping.am_bytes, False), (64, True)):
        kernel = lab.kernel(lambda b: stored(b, 1))
        plan(kernel, dataclasses.replace(lab.overlapping, am_bytes=room))
        assert overlap(*kernel.tiles) == shares


def test_a_tile_read_before_it_is_set_keeps_its_bytes_between_iterations(lab):
    def build(b):
        kept, passing = b.tile("f32", 1, 1), b.tile("f32", 1, 1)
        with b.for_(0, 4) as i:
            with b.if_(b.compare("eq", i, 0)):
                fill(b, kept)
            copy(b, kept, kept)
            fill(b, passing)
            copy(b, passing, passing)

    kernel = lab.kernel(build)
    plan(kernel, lab.plain)
    kept, passing = kernel.tiles
    assert not overlap(kept, passing)


def test_spaces_are_planned_apart_and_slots_aligned(lab):
    def build(b):
        for space in ("am", "sm", "gsm"):
            fill(b, b.tile("f32", 3, 5, space, depth=3))

    kernel = lab.kernel(build)
    plan(kernel, lab.plain)
    assert [tile.offset for tile in kernel.tiles] == [0, 0, 0]
    assert {tile.bytes for tile in kernel.tiles} == {192}


@pytest.mark.parametrize("rows", [2, 20])
def test_which_of_two_tiles_ends_last_makes_no_guard(lab, rows):
    """A program that was chosen for many rows serves few."""
    with ShapeEnv({"s0": (rows, 1)}) as symbols:

        def build(b):
            fixed, sized, last = (
                b.tile("f32", 16, 16),
                b.tile("f32", parse_size("{s0}"), 64),
                b.tile("f32", 1, 1),
            )
            fill(b, last)
            fill(b, fixed)
            fill(b, sized)
            copy(b, last, last)

        kernel = lab.kernel(build)
        plan(kernel, lab.plain)
        assert {guard.size for guard in symbols.guards.values() if "s0" in guard.size} <= {
            "s0-1",
            "-s0+2147483648",
            *_capacity(symbols),
        }
        fixed, sized, last = kernel.tiles
        assert fixed.offset == sized.offset == 0
        assert str(last.offset) == "{256*s0+1024}"


def _capacity(symbols):
    return [guard.size for guard in symbols.guards.values() if guard.size.startswith("-256*s0+")]


def test_too_much_names_the_kernel_and_its_tiles(lab):
    def build(b):
        a, c = b.tile("f32", 512, 512), b.tile("f64", 512, 512)
        fill(b, a)
        copy(b, a, a)
        b.map(
            1, 1, [(a, 0, "full")], [(c, 0, "full")], lambda v: [Node("arith.extf", "f64", (v[0],))]
        )

    kernel = lab.kernel(build)
    assert not allocate_scratchpad.fits(kernel, lab.plain)
    with pytest.raises(
        CodegenError, match=r"@kernel_0 needs 3145728 bytes of AM .*'host' has \d+.*512x512 f64"
    ):
        plan(kernel, lab.plain)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_random_kernels_never_put_living_tiles_on_each_other(lab, data):
    count = data.draw(st.integers(2, 7))
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))

    def statements(b, tiles, depth):
        for _ in range(data.draw(st.integers(1, 4))):
            what = data.draw(
                st.sampled_from(["copy", "fill", "loop", "if"] if depth < 3 else ["copy", "fill"])
            )
            if what == "copy":
                copy(b, data.draw(st.sampled_from(tiles)), data.draw(st.sampled_from(tiles)))
            elif what == "fill":
                fill(b, data.draw(st.sampled_from(tiles)))
            elif what == "loop":
                with b.for_(0, 3):
                    statements(b, tiles, depth + 1)
            else:
                with b.if_(b.compare("eq", b.core_id(), 0)):
                    statements(b, tiles, depth + 1)

    kernel = lab.kernel(lambda b: statements(b, [b.tile("f32", 1, n) for n in sizes], 0))
    plan(kernel, lab.plain)
    alive = live_intervals(kernel)
    for i, a in enumerate(kernel.tiles):
        for b in kernel.tiles[:i]:
            if a in alive and b in alive and alive[a].overlaps(alive[b]):
                assert not overlap(a, b)
            assert a.offset % 64 == 0
