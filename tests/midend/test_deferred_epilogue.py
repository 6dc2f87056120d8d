"""Panels with a deferred epilogue, which runs during the next panel's steps.

Cases have an epilogue or none, on any number of cores.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.midend.schedule.gemm import contraction_schedule
from ftm_backend.midend.schedule.gemm.panel_search import panel_schedule
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import (
    EpilogueTraffic,
    OperandTraffic,
    TileCut,
    TilingProblem,
)
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters

M7032 = presets.load("m7032")
M, N, K = 37, 50, 70
GRIDS = {"columns share A": (1, 3, "a"), "groups share A": (2, 2, "a"), "rows share B": (3, 1, "b")}
LOOPS = {"m": (True, False), "m keeps A": (True, True), "n": (False, False)}
FORMS = {  # whether A, B and C lie transposed; how B is taken; chunks of a panel
    "NN": (False, False, False, "plain", 3),
    "NT": (False, True, False, "dot", 1),
    "TT, turned": (True, True, False, "transposed", 5),
    "TN, C turned": (True, False, True, "plain", 2),
}


def _factors(form: str) -> list[tuple[str, int, int, bool]]:
    """Name, rows, columns and transposition of each operand, in the order of first use."""
    a_turned, b_turned, *_ = FORMS[form]
    return sorted((("a", M, K, a_turned), ("b", K, N, b_turned)), key=lambda each: not each[3])


def _trace(form: str, follows: bool) -> str:
    """The product, and, if something follows it, its sum with p and that times v."""
    c_turned = FORMS[form][2]
    c = f"f32[{N},{M}]" if c_turned else f"f32[{M},{N}]"

    params, lines, names = [], [], {}
    for number, (name, rows, columns, turned) in enumerate(_factors(form)):
        params.append(
            f"  %{number} = param "
            + (f"f32[{columns},{rows}]" if turned else f"f32[{rows},{columns}]")
        )
        names[name] = number
        if turned:
            names[name] = (4 if follows else 2) + len(lines)
            view = (
                f"ftm.view(base=%{number}, sizes=[{rows},{columns}], strides=[1,{rows}], offset=0)"
            )
            lines.append(f"  %{names[name]} = {view} : f32[{rows},{columns}]")
    at = len(params) + 2 * follows + len(lines)
    lines.append(f"  %{at} = aten::mm(self=%{names['a']}, mat2=%{names['b']}) : f32[{M},{N}]")
    if c_turned:
        lines.append(
            f"  %{at + 1} = ftm.view(base=%{at}, sizes=[{N},{M}], strides=[1,{N}], offset=0) : {c}"
        )
        at += 1
    results = f"%{at}"
    if follows:
        params += [f"  %2 = param {c}", f"  %3 = param {c}"]
        lines.append(f"  %{at + 1} = aten::add.Tensor(self=%2, other=%{at}, alpha=1) : {c}")
        lines.append(f"  %{at + 2} = aten::mul.Tensor(self=%3, other=%{at + 1}) : {c}")
        results = f"%{at}, %{at + 1}, %{at + 2}"
    return "\n".join(["trace", *params, *lines, f"  return {results}", ""])


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

    monkeypatch.setattr(contraction_schedule, "cheapest", chosen)
    return made


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("k_size", [16, 35, 80])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("grid", GRIDS)
def test_what_is_computed(
    monkeypatch: pytest.MonkeyPatch, grid: str, loops: str, form: str, k_size: int, follows: bool
) -> None:
    made = _force(monkeypatch, grid, loops, form, k_size)
    c_turned = FORMS[form][2]
    rng = np.random.default_rng(0)
    held = {
        name: rng.integers(-4, 5, (rows, columns)).astype(np.float32)
        for name, rows, columns, _ in _factors(form)
    }
    p, v = (
        rng.integers(-4, 5, (N, M) if c_turned else (M, N)).astype(np.float32) for _ in range(2)
    )
    product = held["a"] @ held["b"]
    product = product.T if c_turned else product
    wanted = [product, p + product, v * (p + product)] if follows else [product]
    inputs = [
        np.ascontiguousarray(held[name].T if turned else held[name])
        for name, *_, turned in _factors(form)
    ] + [p, v] * follows
    image = assembler.assemble(
        driver.run_from(
            "trace", _trace(form, follows), "asm", CompileOptions(machine="m7032", cores=8)
        )
    )
    assert made
    for cores in (1, 2, 3, 7, 8):
        with Machine(cores=cores, checked=True) as emulator:
            for got, want in zip(emulator.load(image).run(inputs, []), wanted, strict=True):
                np.testing.assert_array_equal(got, want, err_msg=f"{cores} cores")


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
