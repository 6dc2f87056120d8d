"""Macros outside of maps and what they stand for: expansions compute what the machine does, and
cost what is charged."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from ftm_backend.perf_model import cycle_model, tile_instruction_costs
from ftm_backend.target import cost_rules, op_costs, presets
from ftm_backend.target.instruction_table import BY_NAME
from ftm_backend.target.macros import col2im, matmul, transpose_gather_scatter
from ftm_backend.target.macros.macro_simulator import MacroSimulator, UnitVector
from isa.tile_programs import (
    FAMILY,
    M7032,
    MACHINE,
    RNG,
    TOKENS,
    compute,
    load,
    numbers,
    programs,
    store,
    tile,
    unit,
)
from machine.machine_programs import run_text

SHAPES = [(1, 1), (1, 16), (3, 17), (5, 40), (2, 100)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("down", [False, True], ids=["along", "down"])
@pytest.mark.parametrize("token", ["f64", "f32", "f16", "i64", "i32", "u8"])
@pytest.mark.parametrize("operation", ["ADD", "MUL", "MIN", "MAX", "LSE"])
def test_scan(operation, token, down):
    if operation == "LSE" and token[0] != "f":
        return
    carried = "f64" if token[0] == "f" else "i64"
    for rows, columns in SHAPES:
        x = numbers(token, rows, columns, edges=operation in ("MIN", "MAX", "LSE"))
        shape = (1, columns) if down else (rows, 1)
        carry = numbers(carried, *shape)
        want = compute(
            f"SCAN.{operation}{'.DOWN' if down else ''} X, C, X",
            {"X": (token, x), "C": (carried, carry)},
            {"X": (token, x.shape), "C": (carried, shape)},
        )
        y, left = np.empty_like(x), carry.ravel().copy()
        BY_NAME["SCAN"].macro.function(unit(carried), operation, x, left, y, down)
        for got, wanted in ((y, want[0]), (left, want[1].ravel())):
            if token[0] == "f" and operation in ("ADD", "MUL", "LSE"):
                tolerance = {"f64": 1e-11, "f32": 1e-5, "f16": 1e-2}[token]
                np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("columns", "kept"),
    [(1, 1), (7, 7), (16, 16), (33, 33), (100, 100), (300, 5), (300, 40), (64, 1), (257, 256)],
)
def test_sort(columns, kept):
    x = np.concatenate(
        [
            numbers("i64", 2, columns),
            RNG.integers(-3, 3, (1, columns)),
            np.full((1, columns), np.iinfo(np.int64).max),
        ]
    )
    y = np.empty((4, kept), np.int64)
    BY_NAME["SORT"].macro.function(unit("i64"), x, y)
    (got,) = compute("SORT X, Y", {"X": ("i64", x)}, {"Y": ("i64", (4, kept))})
    np.testing.assert_array_equal(y, got)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (16, 16), (5, 40), (40, 5), (33, 95), (7, 0), (0, 9)])
def test_merge(a, b):
    left, right = (np.sort(RNG.integers(-20, 20, (3, n))) for n in (a, b))
    operands = {"A": ("i64", left), "B": ("i64", right)}
    (got,) = compute("MERGE A, B, Y", operands, {"Y": ("i64", (3, a + b))})
    y = np.empty((3, a + b), np.int64)
    BY_NAME["MERGE"].macro.function(unit("i64"), left, right, y)
    np.testing.assert_array_equal(y, got)


@pytest.mark.parametrize("token", ["f64", "f32", "f16", "i64", "u8"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (16, 16), (33, 7), (5, 130), (70, 129)])
def test_transpose(token, rows, columns):
    x = numbers(token, rows, columns, edges=True)
    (got,) = compute("TRANS X, Y", {"X": (token, x)}, {"Y": (token, (columns, rows))})
    y = np.empty((columns, rows), x.dtype)
    BY_NAME["TRANS"].macro.function(unit(token), x, y)
    np.testing.assert_array_equal(y, got)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("transposed", [False, True], ids=["MM", "MM.TB"])
@pytest.mark.parametrize("token", ["f64", "f32", "i32", "i64"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (6, 48, 9), (7, 50, 33), (13, 5, 100), (3, 9, 0)]
)
def test_product(token, m, n, k, transposed):
    a, b, c = (
        numbers(token, *shape) for shape in ((m, k), (n, k) if transposed else (k, n), (m, n))
    )
    word = "MM" + (".TB" if transposed else "") + ".ACC"
    (got,) = compute(
        f"{word} A, B, C",
        {"A": (token, a), "B": (token, b), "C": (token, c)},
        {"C": (token, (m, n))},
    )
    BY_NAME["MM"].macro.function(unit(token), a, b, result := c.copy(), transposed)
    np.testing.assert_allclose(result, got, rtol=1e-4 if token == "f32" else 1e-12, atol=1e-4)


def test_windows():
    image, b, c = numbers("f32", 1, 60), numbers("f32", 6, 20), numbers("f32", 14, 20)
    # 2 x 7 places of a window of 2 x 3 in an image that is 10 wide.
    (got,) = compute(
        "MMW.ACC A, 2@10 7@1 | 2@10 3@1, B, C",
        {"A": ("f32", image), "B": ("f32", b), "C": ("f32", c)},
        {"C": ("f32", (14, 20))},
    )
    offsets = np.array(
        [[(p // 7 + w // 3) * 10 + p % 7 + w % 3 for w in range(6)] for p in range(14)]
    )
    BY_NAME["MMW"].macro.function(unit("f32"), image.ravel(), offsets, 1, b, result := c.copy())
    np.testing.assert_allclose(result, got, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("operation", ["ADD", "MUL", "MIN", "MAX"])
@pytest.mark.parametrize("token", ["f64", "f32", "i64", "i32"])
def test_scatter_with_arithmetic(token, operation):
    rows, columns = 9, 37
    x, a = numbers(token, rows, columns, edges=True), numbers(token, 5, columns, edges=True)
    index = np.array([[0], [4], [2], [2], [0], [2], [1], [4], [2]])
    text = programs(
        f"@in b0, {token}, {rows}x{columns}\n@in b1, i64, {rows}x1\n@in b2, {token}, 5x{columns}\n@out o0, {token}, 5x{columns}\n",
        tile("X", token, rows, columns, 0)
        + tile("I", "i64", rows, 1, 32768)
        + tile("A", token, 5, columns, 65536)
        + load("A", "b2", 5, columns)
        + store("A", "o0", 5, columns)
        + load("X", "b0", rows, columns)
        + load("I", "b1", rows, 1)
        + f"    DSC.{operation} X, I, o0[0], {columns} | {columns}@1\n",
    )
    places = index * columns + np.arange(columns)
    BY_NAME["DSC"].macro.function(unit(token), operation, x, flat := a.ravel().copy(), places)
    np.testing.assert_array_equal(flat.reshape(a.shape), run_text(MACHINE, text, [x, index, a])[0])


@pytest.mark.parametrize(
    ("dims", "sides"),
    [
        ("5@7 7@1 | 3@35", "5@0 4@2 | 5@7 7@1"),
        ("4@9 3@2 | 2@1 3@36", "3@1 7@1 | 4@9 9@1"),
        ("9@1 | 4@9", "3@0 7@1 | 4@9 9@1"),
        ("2@20 | 10@-1", "2@1 3@1 | 4@5 5@1"),
    ],
)
def test_load_with_a_border(dims, sides):
    sizes = [
        [tuple(map(int, pair.split("@"))) for pair in side.split()]
        for side in (*dims.split("|"), *sides.split("|"))
    ]
    (rows, columns), inside, whole = (
        [prod(n for n, _ in side) for side in sizes[:2]],
        *([n for n, _ in side] for side in sizes[2:]),
    )
    first = 9 if "-" in dims else 0
    places = np.full((1,), first)
    for extent, stride in (*sizes[0], *sizes[1]):
        places = (places[..., None] + np.arange(extent) * stride).reshape(*places.shape, extent)
    a = numbers("f32", 3 * prod(inside))
    text = programs(
        f"@in b0, f32, {a.size}\n@out o0, f32, {rows}x{columns}\n",
        tile("Y", "f32", rows, columns, 0)
        + f"    DLB b0[{first}], {dims}, {sides}, Y\n    DWAIT Y\n"
        + store("Y", "o0", rows, columns),
    )
    y = np.empty((rows, columns), np.float32)
    BY_NAME["DLB"].macro.function(
        unit("f32"), a, places.reshape(rows, columns), inside, [b for _, b in sizes[2]], whole, y
    )
    np.testing.assert_array_equal(y, run_text(MACHINE, text, [a])[0])
    assert (y == 0).any()


def test_gather():
    a, index = numbers("f32", 50), RNG.integers(0, 50, (3, 21))
    text = programs(
        "@in b0, f32, 50\n@in b1, i64, 3x21\n@out o0, f32, 3x21\n",
        tile("I", "i64", 3, 21, 0)
        + tile("Y", "f32", 3, 21, 8192)
        + load("I", "b1", 3, 21)
        + "    @map 3 x 21, I:v0 -> Y:v1\n      VGA.F32 b0[0], v0, v1\n    @endmap\n"
        + store("Y", "o0", 3, 21),
    )
    BY_NAME["VGA"].macro.function(unit("f32"), a, index, d := np.empty((3, 21), np.float32))
    np.testing.assert_array_equal(d, run_text(MACHINE, text, [a, index])[0])


# --- what is charged
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", FAMILY, ids=lambda machine: machine.name)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(6, 48, 1), (6, 48, 512), (6, 64, 9), (13, 100, 64), (7, 80, 5), (200, 300, 77)],
)
def test_products_are_charged_what_their_expansion_takes(machine, m, n, k):
    """The closed forms are those of the published micro-kernels; see ``test_cycles_published``."""

    def counted(transposed: bool) -> float:
        u = MacroSimulator(machine, "f64", op_costs.cost, dry=True)
        matmul.product(
            u,
            np.zeros((m, k)),
            np.zeros((n, k) if transposed else (k, n)),
            np.zeros((m, n)),
            transposed,
        )
        return u.cycles

    assert counted(False) == cost_rules.outer_cycles(machine, "f64", m, n, k)
    if machine is M7032:
        assert counted(True) == pytest.approx(
            cost_rules.dot_cycles(machine, "f64", m, n, k), rel=0.01
        )


@pytest.mark.parametrize("machine", FAMILY, ids=lambda machine: machine.name)
@pytest.mark.parametrize("vectors", range(1, 12))
@pytest.mark.parametrize("k", [1, 2, 9, 64, 511])
def test_products_of_narrow_types_have_thin_micro_kernels(machine, vectors, k):
    """Those of two vectors are charged what their expansion takes, those of one a few cycles more
    for each call."""
    m, n = 13, vectors * machine.lanes("f32") - 3
    u = MacroSimulator(machine, "f32", op_costs.cost, dry=True)
    matmul.product(u, *(np.zeros(shape, np.float32) for shape in ((m, k), (k, n), (m, n))), False)
    spare = 3 * 5 if vectors == 1 else 0
    assert cost_rules.outer_cycles(machine, "f32", m, n, k) == u.cycles + spare
    assert cost_rules.padded_columns(machine, "f32", n) == vectors * machine.lanes("f32")
    assert cost_rules.padded_columns(machine, "f64", n) >= cost_rules.padded_columns(
        machine, "f32", n
    )


def test_thin_micro_kernels_keep_the_pipes_busy_where_elements_are_broadcast_fast_enough():
    """64 columns of f32 take two thirds of the time of 96, 32 as long as broadcasts of 6 elements;
    of f64 32 columns take that of 48."""
    steps = [
        cost_rules.outer_cycles(M7032, "f32", 6, n, 1002)
        - cost_rules.outer_cycles(M7032, "f32", 6, n, 2)
        for n in (32, 64, 96, 128, 160)
    ]
    assert steps == [3000, 4000, 6000, 8000, 10000]
    steps = [
        cost_rules.outer_cycles(M7032, "f64", 6, n, 1002)
        - cost_rules.outer_cycles(M7032, "f64", 6, n, 2)
        for n in (16, 32, 48)
    ]
    assert steps == [6000, 6000, 6000]


def test_windows_are_charged_what_their_expansion_takes():
    u = MacroSimulator(M7032, "f32", op_costs.cost, dry=True)
    matmul.windows(
        u,
        np.zeros(10, np.float32),
        np.zeros((100, 27), np.int64),
        3,
        np.zeros((27, 64), np.float32),
        np.zeros((100, 64), np.float32),
    )
    assert u.cycles == cost_rules.windows_cycles(M7032, "f32", 100, 64, 3, 27)
    wide = MacroSimulator(M7032, "f32", op_costs.cost, dry=True)
    matmul.windows(
        wide,
        np.zeros(10, np.float32),
        np.zeros((100, 27), np.int64),
        3,
        np.zeros((27, 96), np.float32),
        np.zeros((100, 96), np.float32),
    )
    assert wide.cycles == cost_rules.windows_cycles(M7032, "f32", 100, 96, 3, 27) > u.cycles


def test_thin_products_compute_what_they_should():
    for m, n, k in ((1, 1, 1), (7, 33, 5), (13, 64, 4), (6, 150, 7)):
        a, b = (RNG.integers(-4, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        c = np.ones((m, n), np.float32)
        matmul.product(unit("f32"), a, b, c, False)
        np.testing.assert_array_equal(c, 1 + a @ b)
        flat, offsets = a.ravel(), np.arange(a.size).reshape(a.shape)
        matmul.windows(unit("f32"), flat, offsets, 3, b, c)
        np.testing.assert_array_equal(c, 1 + 2 * (a @ b))


def test_sums_across_lanes_take_what_was_published():
    u = MacroSimulator(M7032, "f64", op_costs.cost, dry=True)
    for _ in u.loop(1):
        for v in matmul.across(u, [u.constant(np.float64(0))] * 48):
            u.store(v, np.empty(16), 0)
    assert u.cycles == 122 == 48 * M7032.reduce_cycles


@pytest.mark.parametrize("dtype", ["f64", "i64", "f32", "i32", "f16", "i8"])
@pytest.mark.parametrize("machine", FAMILY, ids=lambda machine: machine.name)
def test_transposition_is_charged_what_its_expansion_takes(machine, dtype):
    kind = TOKENS[dtype]
    u = MacroSimulator(machine, dtype, op_costs.cost, dry=True)
    transpose_gather_scatter.transpose(u, np.zeros((512, 512), kind), np.zeros((512, 512), kind))
    assert cost_rules.transpose_cycles(machine, dtype, 512, 512) == pytest.approx(
        u.cycles, rel=0.01
    )


def test_narrow_types_are_transposed_in_more_rounds_of_fewer_vectors():
    """On m7032: 4 shuffles for 16 elements of f64, 5 for 32 of f32, 6 for 64 of f16, and there two
    fills of pipes, since 64 vectors are more than registers hold. On the host as measured, whatever
    the type."""
    took = {
        dtype: cost_rules.transpose_cycles(M7032, dtype, 64, 64) for dtype in ("f64", "f32", "f16")
    }
    assert took == {"f64": 1024, "f32": 640, "f16": 384 + 32}
    host = presets.load("host")
    assert (
        cost_rules.transpose_cycles(host, "f16", 64, 64)
        == cost_rules.transpose_cycles(host, "f64", 64, 64)
        == 64 * 64 * host.mm_transpose_cycles
    )


@pytest.mark.parametrize(("dtype", "charged"), [("f64", 1024), ("f32", 640), ("f16", 416)])
def test_the_cycle_model_charges_a_transposition_by_its_type(dtype, charged):
    text = (
        f"@program t, m7032\n@in b0, {dtype}, 64x64\n@out o0, {dtype}, 64x64\n@func main\n  @tile X, am, {dtype}, 64x64, 1, 0\n"
        f"  @tile Y, am, {dtype}, 64x64, 1, 65536\n    DLD b0[0], 64@64 | 64@1, X\n    DWAIT X\n    TRANS X, Y\n"
        "    DST Y, o0[0], 64@64 | 64@1\n@ret\n"
    )
    without = text.replace("    TRANS X, Y\n", "").replace("DST Y", "DST X")
    took = (
        cycle_model.model(text, machine="m7032", cores=1).cycles
        - cycle_model.model(without, machine="m7032", cores=1).cycles
    )
    assert took == charged + M7032.issue_cycles


CASES = {
    "SCAN": (
        lambda: (numbers("f64", 7, 90), numbers("f64", 7), numbers("f64", 7, 90), False),
        "ADD",
    ),
    "SORT": (lambda: (numbers("i64", 3, 100), np.empty((3, 20), np.int64)), None),
    "MERGE": (
        lambda: (numbers("i64", 3, 100), numbers("i64", 3, 60), np.empty((3, 160), np.int64)),
        None,
    ),
    "TRANS": (lambda: (numbers("f64", 30, 50), numbers("f64", 50, 30)), None),
    "FOLD": (
        lambda: (
            numbers("f64", 18, 49),
            numbers("f64", 2, 196),
            [col2im.FoldSide(3, 1, 7, 2, 14, 1)] * 2,
        ),
        None,
    ),
    "DSC": (
        lambda: (numbers("f64", 7, 90), numbers("f64", 900), np.arange(630).reshape(7, 90)),
        "MIN",
    ),
    "VGA": (lambda: (numbers("f64", 90), np.arange(60).reshape(3, 20), np.empty((3, 20))), None),
    "MM": (
        lambda: (numbers("f64", 13, 20), numbers("f64", 20, 60), numbers("f64", 13, 60), False),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_counted_dry_is_what_is_executed(name):
    """Each turn of a loop does the same, so that one is enough to count."""
    make, operation = CASES[name]
    operands = (operation, *make()) if operation else make()
    taken = []
    for dry in (False, True):
        u = unit("i64" if name in ("SORT", "MERGE") else "f64", dry)
        BY_NAME[name].macro.function(u, *operands)
        taken.append(u.cycles)
    assert taken[0] == taken[1] > 0


class Watched(MacroSimulator):
    """Counts the registers of what it executes: vectors that were computed and will be read."""

    def __init__(self, dtype: str) -> None:
        super().__init__(M7032, dtype, op_costs.cost, dry=True)
        self._events: list[tuple[UnitVector, tuple[UnitVector, ...]]] = []

    def _do(self, unit, latency, value, *sources, count=1):
        self._events.append((super()._do(unit, latency, value, *sources, count=count), sources))
        return self._events[-1][0]

    def constant(self, value):
        self._events.append((super().constant(value), ()))
        return self._events[-1][0]

    def registers(self) -> int:
        last = {
            id(source): at for at, (_, sources) in enumerate(self._events) for source in sources
        }
        alive = most = 0
        for at, (result, sources) in enumerate(self._events):
            alive -= sum(last[source] == at for source in {id(source) for source in sources})
            alive += id(result) in last
            most = max(most, alive)
        return most


@pytest.mark.parametrize(
    ("name", "dtype", "operands"),
    [
        ("MM", "f64", ((12, 9), (9, 96), (12, 96), False)),
        ("MM", "f32", ((12, 9), (9, 64), (12, 64), False)),
        ("MM", "f64", ((12, 40), (16, 40), (12, 16), True)),
        ("TRANS", "f64", ((32, 32), (32, 32))),
        ("TRANS", "f32", ((64, 64), (64, 64))),
        ("TRANS", "f16", ((128, 64), (64, 128))),
        ("TRANS", "i8", ((128, 128), (128, 128))),
        ("FOLD", "f32", ((18, 49), (2, 196), [col2im.FoldSide(3, 1, 7, 2, 14, 1)] * 2)),
        ("SCAN", "f64", ("LSE", (4, 64), (4,), (4, 64), False)),
        ("SCAN", "f64", ("LSE", (4, 64), (64,), (4, 64), True)),
        ("SORT", "i64", ((3, 512), (3, 512))),
        ("SORT", "i64", ((3, 512), (3, 20))),
        ("MERGE", "i64", ((3, 100), (3, 60), (3, 160))),
        ("DSC", "f64", ("MIN", (7, 90), (900,), np.arange(630).reshape(7, 90))),
    ],
)
def test_expansions_keep_to_the_registers(name, dtype, operands):
    u = Watched(dtype)
    BY_NAME[name].macro.function(
        u, *(np.zeros(o, TOKENS[dtype]) if isinstance(o, tuple) else o for o in operands)
    )
    assert 2 < u.registers() <= M7032.vector_registers


def test_costs_grow_with_the_work():
    assert tile_instruction_costs.scan(
        M7032, "f64", 4, 256, "LSE", False
    ) > 5 * tile_instruction_costs.scan(M7032, "f64", 4, 256, "ADD", False)
    assert tile_instruction_costs.scan(
        M7032, "f64", 4, 256, "ADD", True
    ) < tile_instruction_costs.scan(M7032, "f64", 4, 256, "ADD", False)
    assert (
        tile_instruction_costs.sort(M7032, 2, 1024, 4)
        < tile_instruction_costs.sort(M7032, 2, 1024, 1024)
        < tile_instruction_costs.sort(M7032, 4, 1024, 1024)
    )
    assert tile_instruction_costs.merge(M7032, 1, 512, 512) < tile_instruction_costs.sort(
        M7032, 1, 1024, 1024
    )
    slow = replace(M7032, fma_latency=60)
    assert tile_instruction_costs.scan(
        slow, "f64", 4, 256, "ADD", True
    ) > tile_instruction_costs.scan(M7032, "f64", 4, 256, "ADD", True)
