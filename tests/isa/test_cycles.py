"""The cycle model's mechanics: sums that can be done by hand, overlap from waits, exact
extrapolation."""

from dataclasses import replace

import pytest

from ftm_backend.perf_model import cycle_model
from ftm_backend.perf_model.tile_instruction_costs import merge, product, scan, sort, transfer
from ftm_backend.target import presets

M7032 = presets.load("m7032")
QUIET = replace(M7032, issue_cycles=0, scalar_latency=0, branch_latency=0)
PER_BYTE = M7032.clock_hz / M7032.core_bandwidth


def program(body: str, tiles: str = "", elements: int = 1 << 20) -> str:
    declared = tiles or "  @tile X, am, f32, 64x64, 2, 0\n  @tile Y, am, f32, 64x64, 2, 32768\n"
    return (
        f"@program t, m7032\n@in b0, f32, {elements}\n@in i0, i64, 64\n@scalar s0, i64\n@out o0, f32, {elements}\n"
        f"@func main\n{declared}{body}@ret\n"
    )


def run(body: str, machine=QUIET, cores: int = 1, **options):
    return cycle_model.model(program(body), machine=machine, cores=cores, **options)


def test_transfer_time_is_latency_plus_bytes():
    profile = run("    DLD b0[0], 64@64 | 64@1, X\n    DWAIT X\n")
    assert profile.cycles == pytest.approx(62 + 16384 * PER_BYTE)
    assert profile.dma_bytes == 16384 and profile.flops == 0
    assert profile.kernels[0].bound == "DMA"


def test_transfers_overlap_with_work_until_the_wait():
    load = "    DLD b0[0], 64@64 | 64@1, X\n"
    work = "    @map 64 x 64 -> Y:v0\n      VEXP.F32 1.0, v0\n    @endmap\n"
    alone, both = run(load), run(load + work)
    busy = run(work).cycles
    assert both.cycles == pytest.approx(max(alone.cycles, busy))
    assert run(load + "    DWAIT X\n" + work).cycles == pytest.approx(alone.cycles + busy)


def test_a_core_that_copies_itself_does_not_overlap():
    load = "    DLD b0[0], 64@64 | 64@1, X\n"
    work = "    @map 64 x 64 -> Y:v0\n      VEXP.F32 1.0, v0\n    @endmap\n"
    machine = replace(QUIET, dma_overlaps=False)
    assert run(load + work, machine).cycles == pytest.approx(
        run(load, machine).cycles + run(work, machine).cycles
    )


@pytest.mark.parametrize(
    ("rows", "columns", "bytes_", "ddr"),
    [
        ([(4, 64)], [(64, 1)], 1024, 1024),  # one contiguous run
        ([(4, 100)], [(64, 1)], 1024, 1024),  # four runs of 256 bytes
        ([(4, 100)], [(10, 1)], 160, 512),  # short runs cost a granule each
        ([(4, 0)], [(64, 1)], 1024, 256),  # a repeated row is read once
        ([(0, 1)], [(64, 1)], 0, 0),
        ([(1, 1)], [(1, 1)], 4, 128),
    ],
)
def test_bytes_of_a_transfer(rows, columns, bytes_, ddr):
    moved = transfer(M7032, 4, rows, columns)
    assert (moved.bytes, moved.ddr_bytes, moved.element_cycles) == (bytes_, ddr, 0.0)


@pytest.mark.parametrize(
    ("dims", "cycles"),
    [("16@8 | 32@1", 16 * 128 / 256), ("32@2 | 8@1", 32 * 128 / 256), ("16@1 | 64@8", 16 * 64 * 8)],
)
def test_windows_of_a_tile_are_copied_by_runs(dims, cycles):
    copy = f"    DCW X, {dims}, Y\n"
    load = "    DLD b0[0], 64@64 | 64@1, X\n    DWAIT X\n"
    both, alone = (run(load + rest + "    DWAITALL\n") for rest in (copy, ""))
    assert both.cycles - alone.cycles == pytest.approx(M7032.dma_latency + cycles)
    assert both.dma_bytes == alone.dma_bytes, "DDR has no part in it"


def test_strided_elements_move_one_by_one():
    moved = transfer(M7032, 4, [(64, 1)], [(64, 1024)])
    assert moved.element_cycles == 64 * 64 * M7032.dma_element_cycles
    assert moved.ddr_bytes == 64 * 256, "neighbouring rows share the granules of a column"


def test_order_time():
    fill = 9 + 6 + 4
    assert scan(M7032, "f64", 64, 64, "ADD", True) == pytest.approx(
        4 * (64 * 7 / 4 + 9 + 4), rel=0.1
    ), "an addition and a hand-over a row"
    along = scan(M7032, "f64", 3, 64, "ADD", False)
    assert 3 * 4 * 5 < along < 3 * (4 * 5 + 5 * 7 + fill + 11), "five shuffles a vector"
    assert scan(M7032, "f64", 3, 64, "LSE", True) > 10 * scan(M7032, "f64", 3, 64, "ADD", True)
    assert merge(M7032, 2, 512, 512) < sort(M7032, 2, 1024, 4) < sort(M7032, 2, 1024, 1024)


def test_order_instructions_set_extents():
    tiles = "".join(
        f"  @tile {name}, am, {dtype}, {shape}, 1, {at}\n"
        for name, dtype, shape, at in (
            ("A", "i64", "2x32", 0),
            ("B", "i64", "2x64", 512),
            ("F", "i64", "2x8", 1536),
            ("C", "i64", "2x1", 2048),
        )
    )
    body = (
        "    DLD i0[0], 2@32 | 32@1, A\n    DWAIT A\n    @map 2 x 1 -> C:v0\n      VMOV.I64 0, v0\n    @endmap\n"
        "    SCAN.ADD A, C, A\n    SORT A, A\n    SORT A, F\n    MERGE A, F, B\n    SORT B, B\n"
    )
    profile = cycle_model.model(program(body, tiles), machine=QUIET, cores=1)
    body = body.replace("SORT B, B", "SORT B, F")
    assert cycle_model.model(program(body, tiles), machine=QUIET, cores=1).cycles < profile.cycles


def test_matrix_time():
    assert product(M7032, "f64", 7, 48, 10, False).cycles == 2 * (26 + 60)
    assert product(M7032, "f64", 7, 49, 10, False).cycles == 2 * (29 + 80)
    assert product(M7032, "f64", 6, 16 * 5, 10, False).cycles == 2 * (26 + 60)
    assert product(M7032, "f64", 6, 16 * 11, 10, False).cycles == 26 + 60 + 2 * (29 + 80)
    assert product(M7032, "f32", 6, 96, 10, False).cycles == 86
    assert product(M7032, "f32", 6, 96, 0, False).cycles == 0
    tiles = "  @tile X, am, f32, 64x64, 2, 0\n  @tile Y, am, f32, 64x64, 1, 32768\n"
    body = "    DLD b0[0], 12@64 | 30@1, X\n    DLD b0[0], 30@96 | 64@1, X[1]\n    DWAITALL\n    MM X, X[1], Y\n"
    profile = cycle_model.model(program(body, tiles), machine=QUIET, cores=1)
    assert profile.flops == 2 * 12 * 30 * 64, "extents come from the loads"


def test_map_time_is_prologue_and_interval():
    body = "      VFMA.F32 v0, 2.0, 1.0, v1\n" * 9
    text = "    @map 64 x 64, X:v0 -> Y:v1\n" + body + "    @endmap\n"
    vectors = 64 * 2
    prologue = 9 + 6 + 4
    assert run(text).cycles == prologue + 3 * vectors, "nine operations on three pipes"
    assert run(text).flops == 64 * 64 * 18


def test_short_rows_waste_lanes_and_single_columns_do_not():
    def cost(rows: int, columns: int) -> float:
        return run(
            f"    @map {rows} x {columns} -> Y:v0\n      VMOV.F32 1.0, v0\n    @endmap\n"
        ).cycles

    assert cost(64, 8) == cost(64, 32)
    assert cost(64, 1) < cost(64, 2)
    assert cost(0, 64) == 0


def test_cores_share_ddr():
    body = "    DLD b0[0], 64@64 | 64@1, X\n"
    one, two, eight = (run(body, cores=count).cycles - 62 for count in (1, 2, 8))
    assert two == pytest.approx(one), "two cores stay below the cluster's bandwidth"
    assert eight == pytest.approx(16384 * 8 * M7032.clock_hz / M7032.ddr_bandwidth)


def test_a_lone_core_has_ddr_to_itself():
    alone = "    SCID r1\n    SEQ r1, 0, r2\n  [!r2] SBR BB_e\n    DLD b0[0], 64@64 | 64@1, X\n  BB_e:\n    BARRIER\n"
    profile = run(alone, cores=8)
    assert profile.cycles == pytest.approx(62 + 16384 * PER_BYTE + M7032.barrier_cycles)


def test_phases_last_as_long_as_their_slowest_core():
    work = "    @map {} x 64 -> Y:v0\n      VEXP.F32 1.0, v0\n    @endmap\n"
    body = (
        "    SCID r1\n    SMUL r1, 32, r2\n"
        + work.format("r2")
        + "    BARRIER\n"
        + work.format("32")
    )
    expected = run(work.format("32")).cycles * 2 + M7032.barrier_cycles
    assert run(body, cores=2).cycles == pytest.approx(expected)


def test_gsm_tiles_keep_their_extents_across_cores():
    tiles = "  @tile G, gsm, f32, 64x64, 1, 0\n  @tile C, am, f32, 64x64, 1, 0\n"
    body = "    SCID r1\n  [r1] SBR BB_e\n    DLD b0[0], 64@64 | 64@1, G\n  BB_e:\n    BARRIER\n    MM G, G, C\n"
    assert cycle_model.model(program(body, tiles), machine=QUIET, cores=2).flops == 2 * 2 * 64**3


LOOP = """\
    SCID r1
    SNC r2
    SMUL r1, 64, r3
    SMUL r2, 64, r4
    SLT r3, {n}, r6
  [!r6] SBR BB_end
  LOOP_main_0: 1, {bound}
    SSUB {n}, r3, r7
    SMIN r7, 64, r7
    DLD b0[r3], 1@1 | r7@1, X[r5]
    DWAIT X[r5]
    DWAIT Y[r5]
    @map 1 x r7, X[r5]:v0 -> Y[r5]:v1
      VFMA.F32 v0, 2.0, 1.0, v1
    @endmap
    DST Y[r5], o0[r3], 1@1 | r7@1
    SADD r3, r4, r3
    SADD r5, 1, r5
    SLT r3, {n}, r6
  [r6] SBR LOOP_main_0
  BB_end:
"""

NESTED = """\
    SMOV 0, r1
  LOOP_main_0: 1, {n}
    SMOV 0, r2
  LOOP_main_1: 1, 50
    SSUB {n}, r1, r7
    SMIN r7, 32, r7
    DLD b0[r2], 1@1 | r7@1, X[r2]
    DWAIT X[r2]
    SADD r2, 1, r2
    SLT r2, 50, r3
  [r3] SBR LOOP_main_1
    DST X[r1], o0[r1], 1@1 | r7@1
    SADD r1, 1, r1
    SLT r1, {n}, r3
  [r3] SBR LOOP_main_0
"""


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("n", [1, 64, 65, 1000, 50_000])
@pytest.mark.parametrize("machine", ["m7032", "host"])
def test_jumping_over_steady_loops_is_exact(cores, n, machine):
    text = program(LOOP.format(n=n, bound=-(-n // 64)))
    quick, slow = (
        cycle_model.model(text, machine=machine, cores=cores, extrapolate=e) for e in (True, False)
    )
    assert quick.cycles == pytest.approx(slow.cycles, rel=1e-9)
    assert (quick.dma_bytes, quick.flops) == (slow.dma_bytes, slow.flops)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
def test_jumping_is_exact_in_nested_loops_with_tails(n):
    text = program(NESTED.format(n=n))
    quick, slow = (
        cycle_model.model(text, machine="m7032", cores=1, extrapolate=e) for e in (True, False)
    )
    assert quick.cycles == pytest.approx(slow.cycles, rel=1e-9)
    assert quick.dma_bytes == slow.dma_bytes


def test_a_loop_of_ten_million_steps():
    text = program(LOOP.format(n=640_000_000, bound=10_000_000), elements=640_000_000)
    profile = cycle_model.model(text, machine="m7032", cores=1)
    assert profile.flops == 2 * 640_000_000


def test_loops_that_jumping_cannot_follow_are_walked():
    body = (
        "    SMOV 0, r1\n  LOOP_main_0: 1, 100\n    SREM r1, 7, r2\n    SADD r2, 1, r2\n    DLD b0[0], 1@1 | r2@1, X\n"
        "    DWAIT X\n    SADD r1, 1, r1\n    SNE r1, 100, r3\n  [r3] SBR LOOP_main_0\n"
    )
    assert run(body).cycles == pytest.approx(run(body, extrapolate=False).cycles)


WINDOW = """\
    SMOV 0, r1
  LOOP_main_0: 1, {n}
    SMOV 1, r7
    SLT r1, {low}, r2
    SLT {high}, r1, r3
    SADD r2, r3, r2
  [!r2] SMOV 64, r7
    DLD b0[r1], 1@1 | r7@1, X
    DWAIT X
    SADD r1, 1, r1
    SLT r1, {n}, r3
  [r3] SBR LOOP_main_0
"""


@pytest.mark.parametrize(
    ("low", "high"), [(100, 900), (10, 990), (0, 1000), (400, 600), (500, 1000)]
)
def test_loops_that_differ_in_the_middle(low, high):
    text = program(WINDOW.format(n=1000, low=low, high=high - 1))
    quick, slow = (
        cycle_model.model(text, machine="m7032", cores=1, extrapolate=e) for e in (True, False)
    )
    assert quick.cycles == pytest.approx(slow.cycles, rel=1e-9)


def test_leaving_a_loop_in_the_middle():
    body = (
        "    SMOV 0, r1\n  LOOP_main_0: 1, 1000\n    SLT 699, r1, r2\n  [r2] SBR BB_out\n    DLD b0[r1], 1@1 | 8@1, X\n"
        "    DWAIT X\n    SADD r1, 1, r1\n    SLT r1, 1000, r3\n  [r3] SBR LOOP_main_0\n  BB_out:\n    BARRIER\n"
        "    DLD b0[r1], 1@1 | 64@1, X\n"
    )
    quick, slow = (run(body, extrapolate=e) for e in (True, False))
    assert quick.cycles == pytest.approx(slow.cycles, rel=1e-9)
    assert quick.dma_bytes == slow.dma_bytes


def test_programs_that_do_not_end_are_told_of():
    with pytest.raises(cycle_model.WalkError, match="does the program end"):
        run("  BB_a:\n    SADD r1, 1, r1\n    SREM r1, 2, r2\n    SBR BB_a\n", limit=1000)


def test_barriers_that_cores_disagree_on_are_told_of():
    with pytest.raises(cycle_model.WalkError, match="1 of 2 cores ended"):
        run("    SCID r1\n  [r1] BARRIER\n", cores=2)


def test_scalars_and_loaded_integers_steer():
    body = "    DLD b0[0], 1@1 | s0@1, X\n    SLDI i0[3], r1\n    DLD b0[0], r1@64 | 64@1, X\n"
    default, chosen = run(body), run(body, scalars={"s0": 32}, loaded=2)
    assert chosen.dma_bytes == default.dma_bytes + 2 * 256


def test_kernels_are_accounted_apart():
    text = program("    @call f\n    @call f\n    @call g\n") + (
        "@func f\n  @tile X, am, f32, 64x64, 1, 0\n    DLD b0[0], 64@64 | 64@1, X\n    DWAIT X\n@ret\n"
        "@func g\n  @tile X, am, f32, 64x64, 1, 0\n    @map 64 x 64 -> X:v0\n      VMOV.F32 1.0, v0\n    @endmap\n@ret\n"
    )
    profile = cycle_model.model(text, machine="m7032", cores=1)
    kernels = {k.name: k for k in profile.kernels}
    assert (
        kernels["f"].calls == 2
        and kernels["f"].dma_bytes == 2 * 16384
        and kernels["f"].bound == "DMA"
    )
    assert (
        kernels["g"].calls == 1 and kernels["g"].dma_bytes == 0 and kernels["g"].bound == "compute"
    )
    assert sum(k.cycles for k in profile.kernels) == pytest.approx(profile.cycles)
    table = profile.table()
    assert table.startswith("modelled on m7032") and all(
        name in table for name in ("main", "f", "g")
    )
