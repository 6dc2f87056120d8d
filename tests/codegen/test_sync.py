"""Waits: every use of a transfer waits for it, and nothing else waits."""

import pytest

from ftm_backend.codegen import insert_waits as sync
from ftm_backend.codegen.allocate_scratchpad import plan
from ftm_backend.codegen.insert_waits import insert_waits
from ftm_backend.ir.linalg.body_builder import constant
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.kernel_tree import TileInstruction, TileLoop


def shape(block):
    """The kernel as nested lists of words: instruction kinds, and the tile that a wait names."""
    words = []
    for statement in block:
        if isinstance(statement, TileInstruction):
            waits = statement.operands if statement.kind == "wait" else ()
            words.append(" ".join([statement.kind, *(slot.tile.name for slot in waits)]))
        elif isinstance(statement, TileLoop):
            words.append(shape(statement.body))
        else:
            words.append((shape(statement.body), shape(statement.otherwise)))
    return words


def waits(lab, build):
    kernel = lab.kernel(build)
    plan(kernel, lab.plain)
    insert_waits(kernel)
    return shape(kernel.body)


def load(b, tile, at=0, slot=0):
    b.load(b.buffer("b0", "f32", 64), at, tile, slot, [1, 1], [1, 1], 1)


def store(b, tile, at=0, slot=0, to="o0"):
    b.store(tile, slot, b.buffer(to, "f32", 64), at, [1, 1], [1, 1], 1)


def double(b, source, target, slot=0):
    b.map(
        1,
        1,
        [(source, slot, "full")],
        [(target, slot, "full")],
        lambda v: [Node("arith.addf", "f32", (v[0], v[0]))],
    )


def test_a_load_is_waited_for_once_and_a_store_at_the_end(lab):
    def build(b):
        x, y = b.tile("f32", 1, 1), b.tile("f32", 1, 1)
        load(b, x)
        double(b, x, y)
        double(b, x, y)
        store(b, y)

    assert waits(lab, build) == ["load", "wait T0", "compute", "compute", "store", "waitall"]


def test_nothing_in_flight_needs_no_wait(lab):
    def build(b):
        x, y = b.tile("f32", 1, 1), b.tile("f32", 1, 1)
        b.map(1, 1, [], [(x, 0, "full")], lambda v: [constant(1.0, "f32")])
        double(b, x, y)

    assert waits(lab, build) == ["compute", "compute"]


def test_a_tile_is_not_overwritten_while_its_store_is_in_flight(lab):
    def build(b):
        x, y = b.tile("f32", 1, 1), b.tile("f32", 1, 1)
        load(b, x)
        double(b, x, y)
        store(b, y)
        double(b, x, y)
        load(b, x, 1)

    assert waits(lab, build) == [
        "load", "wait T0", "compute", "store", "wait T1", "compute", "load", "waitall",
    ]  # fmt: skip


def test_reading_a_tile_while_it_is_stored_needs_no_wait(lab):
    def build(b):
        x, y, z = (b.tile("f32", 1, 1) for _ in range(3))
        load(b, x)
        store(b, x)
        double(b, x, y)
        double(b, x, z)

    assert waits(lab, build) == ["load", "wait T0", "store", "compute", "compute", "waitall"]


def test_the_store_of_one_iteration_is_waited_for_in_the_next(lab):
    def build(b):
        x, y = b.tile("f32", 1, 1), b.tile("f32", 1, 1)
        with b.for_(0, 8) as i:
            load(b, x, i)
            double(b, x, y)
            store(b, y, i)

    assert waits(lab, build) == [["load", "wait T0", "wait T1", "compute", "store"], "waitall"]


def test_slots_of_a_ring_are_told_apart(lab):
    def build(b):
        x, y = b.tile("f32", 1, 1, depth=2), b.tile("f32", 1, 1, depth=2)
        load(b, x, 0, 0)
        with b.for_(0, 8) as i:
            with b.if_(b.compare("lt", b.add(i, 1), 8)):
                load(b, x, b.add(i, 1), b.add(i, 1))
            double(b, x, y, i)
            store(b, y, i, i)

    # The prefetch needs no wait: the other slot's load was waited for one iteration ago.
    assert waits(lab, build) == [
        "load",
        [(["load"], []), "wait T0", "wait T1", "compute", "store"],
        "waitall",
    ]


def test_slots_that_move_by_more_than_a_constant_step_are_waited_for(lab):
    def build(b):
        x, y = b.tile("f32", 1, 1, depth=3), b.tile("f32", 1, 1, depth=3)
        with b.for_(0, 8) as i:
            load(b, x, i, b.div(i, 2))
            double(b, x, y, b.div(i, 2))
            store(b, y, i, b.div(i, 2))

    assert waits(lab, build) == [["load", "wait T0", "wait T1", "compute", "store"], "waitall"]


def test_a_tile_in_the_bytes_of_one_that_is_still_stored_waits_for_it(lab):
    def build(b):
        y, z = b.tile("f32", 1, 1), b.tile("f32", 1, 1)
        double(b, y, y)
        store(b, y)
        double(b, z, z)

    kernel = lab.kernel(build)
    plan(kernel, lab.plain)
    first, second = kernel.tiles
    assert first.offset == second.offset, "the plan reuses the bytes, or this test tests nothing"
    insert_waits(kernel)
    assert shape(kernel.body) == ["compute", "store", "wait T0", "compute"]


def test_reading_memory_past_the_dma_waits_for_stores(lab):
    def build(b):
        y = b.tile("f32", 1, 1)
        load(b, y)
        store(b, y)
        at = b.load_index(b.buffer("b1", "i64", 8), 0)
        load(b, y, at)
        b.barrier()
        b.load_index(b.buffer("b1", "i64", 8), at)

    assert waits(lab, build) == [
        "load", "wait T0", "store", "waitall", "index", "load", "barrier", "index",
    ]  # fmt: skip


def test_a_branch_may_or_may_not_have_waited(lab):
    def build(b):
        x, y = b.tile("f32", 1, 1), b.tile("f32", 1, 1)
        load(b, x)
        with b.if_(b.compare("eq", b.core_id(), 0)):
            double(b, x, y)
        double(b, x, y)

    assert waits(lab, build) == ["load", (["wait T0", "compute"], []), "wait T0", "compute"]


@pytest.mark.parametrize("distance", [1, 7, 40, 100])
def test_a_ring_that_a_loop_fills_is_followed_in_a_few_rounds(lab, monkeypatch, distance):
    """Waits are those of following the loop one iteration after another, whatever slot it reads of
    those before."""

    def build(b):
        ring, y = b.tile("f32", 1, 1, depth=64), b.tile("f32", 1, 1)
        with b.for_(0, 500) as i:
            load(b, ring, 0, i)
            if distance < 64:
                double(b, ring, y, b.add(i, 64 - distance))
                store(b, y, to="o1")

    def followed(most):
        monkeypatch.setattr(sync, "_ROUNDS", most)
        rounds = []
        block = sync._WaitInserter.block
        monkeypatch.setattr(
            sync._WaitInserter, "block", lambda self, *a: rounds.append(0) or block(self, *a)
        )
        found = waits(lab, build)
        monkeypatch.setattr(sync._WaitInserter, "block", block)
        return found, len(rounds)

    (quick, few), (slow, many) = followed(4), followed(1 << 30)
    assert quick == slow
    if distance == 100:  # nothing is read
        assert few < 10 < 60 < many
