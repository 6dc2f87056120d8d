"""Panel schedules: every kind of plan is right on any number of cores, and estimates hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as every

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.machine import Machine
from ftm_backend.midend.schedule.gemm import operand_roles
from ftm_backend.midend.schedule.gemm.panel_search import panel_schedule
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import OperandTraffic, TileCut, TilingProblem
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend.contraction_programs import NUMPY, assembly, einsum

M7032 = presets.load("m7032")
TIGHT = replace(M7032, am_bytes=24 * 1024, sm_bytes=2 * 1024, gsm_bytes=48 * 1024)
"""Scratchpads so small that small products have several panels and blocks."""


def operands(equation: str, extents: dict[str, int], dtype: str) -> list[np.ndarray]:
    """Random operands of an einsum; small integers, whose sums every type holds exactly."""
    rng = np.random.default_rng(0)
    return [
        rng.integers(-4, 5, [extents[d] for d in dims]).astype(NUMPY[dtype])
        for dims in equation.split("->", maxsplit=1)[0].split(",")
    ]


def check(
    equation: str,
    extents: dict[str, int],
    machine: MachineParameters,
    cores: list[int],
    dtype: str = "f32",
    accumulator: str | None = None,
) -> None:
    """Compiles an einsum for ``machine`` and compares it with numpy, in checked mode, on each
    number of cores."""
    inputs = operands(equation, extents, dtype)
    image = assembler.assemble(
        assembly(einsum(equation, extents, dtype, accumulator or dtype), machine)
    )
    wanted = np.einsum(equation, *(x.astype(NUMPY[accumulator or dtype]) for x in inputs))
    for count in cores:
        with Machine(cores=count, checked=True) as emulator:
            (got,) = emulator.load(image).run(inputs, [])
        np.testing.assert_array_equal(got, wanted, err_msg=f"{count} cores")


# --- every form of plan
# -------------------------------------------------------------------------------

GRIDS = {
    "one core": (1, 1, "none"), "rows": (3, 1, "none"), "columns": (1, 3, "none"),
    "columns share A": (1, 3, "a"), "groups share A": (2, 2, "a"), "rows share B": (3, 1, "b"),
    "rows pool B": (3, 1, "none"), "groups share A, pool B": (2, 2, "a"),
}  # fmt: skip
LOOPS = {
    "m": (True, False),
    "m keeps A": (True, True),
    "n": (False, False),
    "n keeps B": (False, True),
}


def cut(extent: int, size: int) -> TileCut:
    return TileCut(0, min(size, extent), min(size, extent), -(-extent // size))


@pytest.mark.parametrize("k_size", [16, 32, 80])
@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_plan_is_right(
    monkeypatch: pytest.MonkeyPatch, grid: str, loops: str, k_size: int
) -> None:
    rows, columns, share = GRIDS[grid]
    m_outer, keep = LOOPS[loops]
    pooled = "pool B" in grid
    keep = keep and (m_outer or share != "b")  # a B that stays is fetched once by each core
    forms = {
        "mk,kn->mn": (False, "plain", False),
        "mk,nk->mn": (False, "dot", False),
        "km,nk->mn": (True, "transposed", False),
        "km,kn->nm": (True, "plain", True),
    }
    for number, (equation, (trans_a, b_layout, transpose_c)) in enumerate(forms.items()):
        m, n, k = 37, 50, 70

        def chosen(problem: TilingProblem, machine: MachineParameters) -> Schedule:
            if problem.m != (m,):
                return replace(made, cycles=2.0)
            return made

        chunks = (3, 1, 2, 2)[number]
        m_cut = cut(m, 6)
        made = Schedule(
            depth=2,
            m=m_cut,
            n=cut(n, 16),
            k=cut(k, k_size),
            chunks=chunks,
            row_groups=rows,
            column_groups=columns,
            share=share,
            m_outer=m_outer,
            keep_outer=keep,
            a_space="gsm" if share == "a" else ("sm", "am", "gsm")[number % 3],
            trans_a=trans_a,
            b_layout=b_layout,
            transpose_c=transpose_c,
            c_buffers=1 + number % 2,
            b_in_gsm=pooled,
            cycles=1.0,
        )
        monkeypatch.setattr(
            operand_roles,
            "cheapest",
            lambda problems, machine: (0, chosen(problems[0], machine)),
        )
        check(
            equation,
            {"m": m, "n": n, "k": k},
            replace(M7032, cores=rows * columns + 1),
            [1, 2, 3, 4, 7, 8],
        )


# --- choices of the planner
# -------------------------------------------------------------------------

EQUATIONS = {
    "NN": "mk,kn->mn", "NT": "mk,nk->mn", "TN": "km,kn->mn", "TT": "km,nk->mn",
    "batch": "bmk,bkn->bmn", "shared weights": "mk,bkn->bmn", "heads": "bmhk,bnhk->bhmn",
    "two summed": "amk,kna->mn",
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", EQUATIONS)
def test_plans_of_a_tight_machine(name: str, cores: int) -> None:
    extents = {"m": 61, "n": 131, "k": 83, "b": 3, "h": 2, "a": 2}
    check(EQUATIONS[name], extents, replace(TIGHT, cores=cores), sorted({1, cores, 3}))


@pytest.mark.parametrize(
    "sizes", [(1, 300, 200), (300, 1, 200), (400, 3, 1), (1, 1, 900), (0, 4, 5), (3, 4, 0)]
)
@pytest.mark.parametrize("cores", [1, 8])
def test_thin_and_empty(sizes: tuple[int, int, int], cores: int) -> None:
    for equation in ("mk,kn->mn", "km,nk->mn"):
        check(
            equation, dict(zip("mnk", sizes, strict=True)), replace(TIGHT, cores=cores), [cores, 2]
        )


@pytest.mark.parametrize(
    ("dtype", "accumulator"),
    [("f64", "f64"), ("f16", "f32"), ("i64", "i64"), ("i32", "i32"), ("i8", "i32")],
)
def test_types(dtype: str, accumulator: str) -> None:
    for equation, cores in every(("mk,kn->mn", "km,nk->mn"), (1, 3)):
        check(
            equation,
            {"m": 77, "n": 90, "k": 65},
            replace(TIGHT, cores=cores),
            [cores],
            dtype,
            accumulator,
        )


# --- estimates
# ----------------------------------------------------------------------------------------


def problem(
    m: int, n: int, k: int, dtype: str, trans_a: bool = False, trans_b: bool = False
) -> TilingProblem:
    """A product of row-major matrices."""

    def operand(rows: int, columns: int, turned: bool) -> OperandTraffic:
        return OperandTraffic(
            dtype, (rows, 0) if turned else (0, columns), False, (turned, not turned)
        )

    return TilingProblem(
        (),
        (m,),
        (n,),
        (k,),
        operand(m, k, trans_a),
        operand(k, n, trans_b),
        operand(m, n, False),
        dtype,
        can_split_k=True,
    )


SIZES = [
    (1000, 900, 800), (144, 3000, 1000), (5000, 96, 300), (64, 64, 9000), (700, 33, 2000),
    (2, 3000, 3000), (3000, 2, 3000), (2048, 2048, 64),
]  # fmt: skip


@pytest.mark.parametrize("cores", [1, 8])
def test_estimates_are_what_the_cycle_model_charges(cores: int) -> None:
    machine = replace(M7032, cores=cores)
    ratios = []
    for (m, n, k), dtype in every(SIZES, ("f32", "f64")):
        for equation, trans_a, trans_b in (
            ("mk,kn->mn", False, False),
            ("mk,nk->mn", False, True),
            ("km,kn->mn", True, False),
        ):
            text = assembly(einsum(equation, {"m": m, "n": n, "k": k}, dtype, dtype), machine)
            charged = cycle_model.model(text, machine=machine, cores=cores).cycles
            straight = problem(m, n, k, dtype, trans_a, trans_b)
            planned = min(
                panel_schedule(each, machine).cycles for each in (straight, crossed(straight))
            )
            ratios.append(planned / charged)
    off = np.abs(np.array(ratios) - 1)
    assert np.median(off) < 0.03
    assert np.quantile(off, 0.9) < 0.1
    assert off.max() < 0.18


def crossed(p: TilingProblem) -> TilingProblem:
    """The same product with the roles of A and B exchanged."""

    def operand(x: OperandTraffic) -> OperandTraffic:
        return replace(x, runs=x.runs[::-1], coalesces=x.coalesces[::-1])

    return replace(p, m=p.n, n=p.m, a=operand(p.b), b=operand(p.a), c=operand(p.c))
