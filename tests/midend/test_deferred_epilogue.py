"""Panels with a deferred epilogue, which runs during the next panel's steps.

Cases have an epilogue or none, on any number of cores.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ftm_backend.midend.schedule.gemm import operand_roles
from ftm_backend.midend.schedule.gemm.panel_search import panel_schedule
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import (
    EpilogueTraffic,
    OperandTraffic,
    TileCut,
    TilingProblem,
)
from ftm_backend.target.presets import MachineParameters
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check

M, N, K = 37, 50, 70
GRIDS = {"columns share A": (1, 3, "a"), "groups share A": (2, 2, "a"), "rows share B": (3, 1, "b")}
LOOPS = {"m": (True, False), "m keeps A": (True, True), "n": (False, False)}
FORMS = {  # whether A, B and C lie transposed; how B is taken; chunks of a panel
    "NN": (False, False, False, "plain", 3),
    "NT": (False, True, False, "dot", 1),
    "TT, turned": (True, True, False, "transposed", 5),
    "TN, C turned": (True, False, True, "plain", 2),
}


def product(form: str, follows: bool) -> Program:
    """The product, and, if something follows it, its sum with p and that times v."""
    a_turned, b_turned, c_turned, *_ = FORMS[form]
    program, factors = Program(), {}
    shapes = {"a": (M, K, a_turned), "b": (K, N, b_turned)}
    for name, (rows, columns, turned) in sorted(shapes.items(), key=lambda each: not each[1][2]):
        stored = program.integers(*((columns, rows) if turned else (rows, columns)))
        factors[name] = program.transposed(stored) if turned else stored
    c = program.call("mm", self=factors["a"], mat2=factors["b"])
    c = program.transposed(c) if c_turned else c
    if not follows:
        return program.returns(c)
    total = program.add(program.integers(*c.shape), c)
    return program.returns(
        c, total, program.call("mul.Tensor", self=program.integers(*c.shape), other=total)
    )


def _cut(extent: int, size: int) -> TileCut:
    return TileCut(0, min(size, extent), min(size, extent), -(-extent // size))


def _force(
    monkeypatch: pytest.MonkeyPatch, grid: str, loops: str, form: str, k_size: int
) -> list[Schedule]:
    """Force the plan of the product, and return the plans."""
    (rows, columns, share), (m_outer, keep) = GRIDS[grid], LOOPS[loops]
    trans_a, _, transpose_c, b_layout, chunks = FORMS[form]
    m, k, made = _cut(M, 6), _cut(K, k_size), []

    def chosen(problems: list[TilingProblem], machine: MachineParameters) -> tuple[int, Schedule]:
        late = -(-chunks // k.blocks)
        made.append(
            Schedule(
                depth=2, m=m, n=_cut(N, 16), k=k, chunks=chunks, row_groups=rows,
                column_groups=columns, share=share, m_outer=m_outer, keep_outer=keep,
                a_space="gsm" if share == "a" else "sm", trans_a=trans_a, b_layout=b_layout,
                transpose_c=transpose_c, c_buffers=2, deferred_chunks=late,
            )
        )  # fmt: skip
        return 0, made[-1]

    monkeypatch.setattr(operand_roles, "cheapest", chosen)
    return made


@pytest.mark.one_in(5)
@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("k_size", [16, 35, 80])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("grid", GRIDS)
def test_what_is_computed(
    monkeypatch: pytest.MonkeyPatch, grid: str, loops: str, form: str, k_size: int, follows: bool
) -> None:
    made = _force(monkeypatch, grid, loops, form, k_size)
    program = product(form, follows)
    text = assembly(program)
    assert made
    check(program, text, 1, 2, 3, 7, 8, tolerance=0)


def test_updates_of_parameters_are_finished_late() -> None:
    """A gradient of 3072x768 weights with three tensors read and three written: stores need not
    wait behind the last products."""
    item = OperandTraffic("f32", (0, 768), False, (False, True), 768)
    a = OperandTraffic("f32", (3072, 0), False, (True, False), 3072)
    update = EpilogueTraffic(tiles=6, operands=3, bytes=20, c_layout_bytes=20)
    problem = TilingProblem((), (3072,), (768,), (1024,), a, item, item, "f32", epilogue=update)
    plan = panel_schedule(problem, M7032)
    assert plan.deferred_chunks and plan.c_buffers == 2
    alone = panel_schedule(replace(problem, epilogue=EpilogueTraffic()), M7032)
    least = 20 * 3072 * 768 / (M7032.ddr_bandwidth / M7032.clock_hz)
    assert plan.cycles < alone.cycles + 0.5 * least, (
        "transfers of what follows are not behind the products"
    )
