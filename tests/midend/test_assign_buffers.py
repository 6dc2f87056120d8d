"""The memory plan: arena, in-place reuse, donation, barriers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.machine import Machine
from ftm_backend.midend.analysis.hazards import Barriers, StorageRange
from ftm_backend.midend.transforms.memory.best_fit_arena import Arena
from ftm_backend.target import presets
from midend.harness import check, stages
from midend.linalg_text import Function

RNG = np.random.default_rng(11)
ADD = "%r = arith.addf %a, %b : f32\n linalg.yield %r : f32"
SUM = "%r = arith.addf %x, %a : f32\n linalg.yield %r : f32"


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def program(text: str) -> dict:
    found = re.search(r'ftm\.program = "((?:[^"\\]|\\.)*)"', stages(text)["assign-buffers"])
    assert found is not None
    return json.loads(json.loads(f'"{found.group(1)}"'))


@pytest.mark.parametrize("seed", range(5))
def test_arena_never_overlaps_and_reuses(seed):
    rng = np.random.default_rng(seed)
    arena, live = Arena(), {}
    highest = 0
    for _ in range(400):
        if live and rng.random() < 0.5:
            offset = list(live)[rng.integers(len(live))]
            arena.free(offset, live.pop(offset))
        else:
            count = int(rng.integers(0, 5000))
            offset = arena.allocate(count)
            assert offset % 64 == 0
            for other, size in live.items():
                assert offset + max(count, 1) <= other or other + max(size, 1) <= offset
            live[offset] = count
            highest = max(highest, sum(-(-max(n, 1) // 64) * 64 for n in live.values()))
    assert arena.size <= 2 * highest


def test_barrier_only_where_several_cores_depend():
    a, b, c = StorageRange(), StorageRange(), StorageRange()
    barriers = Barriers()
    assert not barriers.visit([], [a], one_core=False)
    assert not barriers.visit([], [b], one_core=False), "independent"
    assert barriers.visit([a], [c], one_core=False), "read after write"
    assert not barriers.visit([b], [StorageRange()], one_core=False), (
        "b was complete at that barrier"
    )
    assert barriers.visit([], [b], one_core=False), "write after read"
    assert barriers.visit([], [StorageRange(before=[b])], one_core=True), (
        "the memory of b changes owner"
    )
    d = StorageRange()
    assert not barriers.visit([], [d], one_core=True)
    assert not barriers.visit([d], [StorageRange()], one_core=True), "both on core 0"
    assert barriers.visit([d], [StorageRange()], one_core=False), "other cores read core 0's stores"


def transposing_chain(length: int, n: int) -> tuple[str, Function]:
    f = Function()
    x = f.argument(f"{n}x{n}xf32")
    for _ in range(length):
        x = f.map(f"{n}x{n}xf32", [(x, "j, i"), (x, "i, j")], ADD)
    return f.text(x), f


def test_long_chain_needs_two_intermediates():
    text, _ = transposing_chain(20, 40)
    facts = program(text)
    assert facts["arena_bytes"] <= 2 * (40 * 40 * 4 + 64)
    check(text, [normal(40, 40) * 1e-3], tolerance=1e-3)


def test_elementwise_kernel_writes_over_its_dying_input():
    f = Function()
    x, y = f.argument("50x60xf32"), f.argument("60x50xf32")
    first = f.map("50x60xf32", [(x, "i, j"), (y, "j, i")], ADD)
    total = f.generic(
        "i j", [(first, "i, j")], (f.fill(f.constant("0.0", "f32"), "f32"), ""), SUM, "i j"
    )
    second = f.map("50x60xf32", [(first, "i, j"), (total, "")], ADD)
    third = f.map("60x50xf32", [(second, "j, i"), (second, "j, i")], ADD)
    last = f.map("50x60xf32", [(third, "j, i"), (second, "i, j")], ADD)
    check(f.text(last), [normal(50, 60), normal(60, 50)], tolerance=1e-3)


def test_donation_is_refused_when_elements_are_read_out_of_place():
    f = Function()
    a = f.argument("30x30xf32")
    out = f.map("30x30xf32", [(a, "j, i"), (a, "i, j")], ADD)
    assert program(f.text(out))["outputs"][0][3] == ""


def test_donation_is_refused_when_the_input_is_read_later():
    f = Function()
    a = f.argument("30x30xf32")
    out = f.map("30x30xf32", [(a, "i, j"), (a, "i, j")], ADD)
    after = f.map("30x30xf32", [(out, "j, i"), (a, "i, j")], ADD)
    outputs = program(f.text(out, after))["outputs"]
    assert outputs[0][3] == ""


@pytest.mark.parametrize("cores", [1, 2])
def test_donated_buffers_give_the_same_results(cores):
    f = Function()
    kinds = ["70x90xf32"] * 3
    p, m, g = (f.argument(k) for k in kinds)
    m1 = f.map(kinds[0], [(m, "i, j"), (g, "i, j")], ADD)
    square = f.generic(
        "i j",
        [(m1, "i, j")],
        (f.fill(f.constant("0.0", "f32"), "f32"), ""),
        "%q = arith.mulf %a, %a : f32\n %r = arith.addf %x, %q : f32\n linalg.yield %r : f32",
        "i j",
    )
    p1 = f.map(
        kinds[0],
        [(p, "i, j"), (m1, "i, j"), (square, "")],
        "%q = arith.divf %b, %c : f32\n %r = arith.subf %a, %q : f32\n linalg.yield %r : f32",
    )
    text = f.text(p1, m1)
    assert [o[3] for o in program(text)["outputs"]] == ["b0", "b1"]
    arrays = [normal(70, 90) for _ in range(3)]
    image = assembler.assemble(stages(text, replace(presets.load("host"), cores=cores))["asm"])
    loaded = Machine(cores=cores, checked=True).load(image)
    plain = [np.array(r) for r in loaded.run([a.copy() for a in arrays])]
    donated = [np.array(r) for r in loaded.run([a.copy() for a in arrays], donate=[0, 1])]
    for a, b in zip(plain, donated, strict=True):
        np.testing.assert_array_equal(a, b)


def test_constants_are_in_the_program():
    f = Function()
    table = f.constant("dense<[1.5, -2.0, 0.25]>", "tensor<3xf32>")
    a = f.argument("3xf32")
    text = f.text(f.map("3xf32", [(a, "i"), (table, "i")], ADD))
    assert program(text)["consts"] == [
        ["k0", "f32", [3], np.array([1.5, -2, 0.25], "<f4").tobytes().hex()]
    ]
    check(text, [normal(3)])


def test_outputs_may_be_views_of_what_a_kernel_computes():
    f = Function()
    a = f.argument("6x4xf32")
    d = f.map("6x4xf32", [(a, "i, j"), (a, "i, j")], ADD)
    flat = f.view(d, "2x12xf32", 0, [12, 1])
    text = f.text(flat)
    assert program(text)["outputs"] == [["o0", "f32", [2, 12], "b0"]]
    check(text, [normal(6, 4)])
