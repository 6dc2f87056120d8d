"""Tilings of contractions with symbolic extents fit all tiles into the scratchpads."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from ftm_backend.midend.schedule.gemm.dynamic_tiling import dynamic_schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import (
    EpilogueTraffic,
    OperandTraffic,
    TilingProblem,
    pitch,
)
from ftm_backend.symbolic import ShapeEnv, compile_expressions, parse_size, size_hint, upper_bound
from ftm_backend.target import presets
from ftm_backend.target.element_types import SLOT_ALIGNMENT

HOST = presets.load("host")
EXTENTS = st.sampled_from((1, 3, 16, 64, 147, 256, 576, 2048))


@given(st.integers(2, 300), st.permutations(("m", "n", "k")), st.tuples(EXTENTS, EXTENTS, EXTENTS))
def test_operands_that_are_kept_have_room_for_twice_their_tiles(
    rows: int, order: list[str], others: tuple[int, int, int]
) -> None:
    with ShapeEnv({"s0": (rows, 2)}) as symbols:
        size = parse_size("{s0}")
        group = {order[0]: (size, others[0]), order[1]: (others[1],), order[2]: (others[2], 2)}
        problem = TilingProblem(
            (1,),
            group["m"],
            group["n"],
            group["k"],
            OperandTraffic("f32", (16, 16)),
            OperandTraffic("f32", (16, 16)),
            OperandTraffic("f32", (16, 16)),
            "f32",
            epilogue=EpilogueTraffic(tiles=1),
        )
        before = set(symbols.guards)
        plan = dynamic_schedule(problem, HOST)
        assert plan is not None
        assert set(symbols.guards) == before, "a tiling chosen by the hints records no guard"
        outer, inner = (plan.m, plan.n) if plan.m_outer else (plan.n, plan.m)
        held = {
            id(outer): upper_bound(plan.k.blocks) if plan.keep_outer else 1,
            id(inner): upper_bound(plan.k.blocks * inner.blocks) if plan.keep_inner else 1,
        }
        a, b = ((plan.k, plan.m), (plan.k, plan.n))
        sides = []
        for (first, second), turned, count in (
            (a, not plan.trans_a, held[id(plan.m)]),
            (b, plan.b_layout == "dot", held[id(plan.n)]),
        ):
            rows_, columns = (second, first) if turned else (first, second)
            slot = size_hint(rows_.elements) * size_hint(pitch(columns.elements, "f32")) * 4
            sides.append(ceil(slot / SLOT_ALIGNMENT) * SLOT_ALIGNMENT * count)
        c = size_hint(plan.m.elements) * size_hint(plan.n.elements) * 4
        assert sides[0] <= HOST.sm_bytes
        assert sides[1] + c <= HOST.am_bytes


@given(st.integers(2, 60), st.integers(2, 2000))
def test_cores_share_products_of_every_size(chosen: int, rows: int) -> None:
    """Also those far smaller than the numbers that the tiles were chosen for."""
    with ShapeEnv({"s0": (16 * chosen, 2)}) as symbols:
        operand = OperandTraffic("f32", (64, 64))
        plan = dynamic_schedule(
            TilingProblem(
                (1,), (parse_size("{s0}"),), (64,), (64,), operand, operand, operand, "f32"
            ),
            HOST,
        )
        assert plan is not None
        shared = plan.n if plan.column_groups > 1 else plan.m
        sizes = compile_expressions(
            [str(n).strip("{}") for n in (shared.size, shared.blocks)], tuple(symbols.values)
        )
    if plan.row_groups > 1:
        size, blocks = sizes(rows)
        assert (blocks - 1) * size < rows <= blocks * size, "the tiles are not the rows"
        assert blocks >= min(HOST.cores, ceil(rows / HOST.mm_rows)), (
            f"{blocks} tiles of {size} rows leave a core idle"
        )
