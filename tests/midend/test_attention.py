"""Attention's forward on machines whose DMA overlaps compute: results equal eager's.

Cases cover masks, NaN and infinities.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.attention import forward as attention
from ftm_backend.midend.schedule.attention.forward_tiling import AttentionTiling, attention_plan
from ftm_backend.midend.schedule.attention.match_forward import AttentionPattern
from ftm_backend.perf_model import cycle_model
from ftm_backend.target.presets import MachineParameters
from midend.attention_programs import CASES, M7032, TIGHT, Case, check, joined
from midend.trace_programs import assembly


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str) -> None:
    assert joined(CASES[name].program())[-1] == KernelKind.ATTENTION


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_attention(name: str, cores: int) -> None:
    check(CASES[name], replace(TIGHT, cores=cores), sorted({1, 3, cores}))
    check(CASES[name], replace(M7032, cores=cores), [cores])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("m", "n", "parts"),
    [(16, 8, 1), (16, 8, 2), (16, 41, 3), (33, 41, 1), (12, 7, 3), (33, 8, 1), (5, 41, 2)],
)
@pytest.mark.parametrize("name", ["plain", "all", "result as columns", "keys as columns", "bf16"])
def test_every_plan_is_right(
    monkeypatch: pytest.MonkeyPatch, name: str, m: int, n: int, parts: int
) -> None:
    def plan(form: AttentionPattern, machine: MachineParameters) -> AttentionTiling:
        blocks = -(-form.extents[-4] // m)
        return AttentionTiling(m, n, min(parts, blocks), "am", 6 * -(-blocks // parts), 1.0)

    monkeypatch.setattr(attention, "attention_plan", plan)
    check(CASES[name], M7032, [1, 2, 3, 4, 8])


@pytest.mark.parametrize("form", ["", "safe", "one_op"])
@pytest.mark.parametrize("given", [0.0, 0.25])
@pytest.mark.parametrize("machine", [TIGHT, M7032], ids=["tight", "m7032"])
def test_rows_without_scores_and_numbers_that_are_none(
    machine: MachineParameters, given: float, form: str
) -> None:
    case = Case(mask="where", safe=form == "safe", one_op=form == "one_op", m=40, n=90)
    inputs = case.inputs()
    q, k, values, mask = inputs
    mask[3] = False  # no score at all: NaN, or the program's value
    mask[4, :60] = False  # none in the first blocks
    mask[5, 30:] = False
    q[0, 0, 7, 2] = math.nan
    q[0, 1, 8] = 1e20  # scores that overflow
    k[1, 0, 60, 1] = math.inf
    values[1, 1, 12, 3] = math.inf
    values[1, 2, 5, 3] = math.nan
    check(case, replace(machine, cores=3), [1, 3], inputs, given)


@pytest.mark.parametrize(
    "case",
    [
        Case(m=0),
        Case(n=0),
        Case(v=0),
        Case(d=0),
        Case(batch=0),
        Case(m=1),
        Case(n=1),
        Case(v=1),
        Case(d=1),
    ],
)
def test_thin_and_empty(case: Case) -> None:
    check(case, replace(M7032, cores=3), [3])


def test_weights_that_are_wanted_stay_in_memory() -> None:
    program = Case().program()
    program.returns(*program.results, program.result_of("_softmax"))
    assert KernelKind.ATTENTION not in joined(program)


def test_a_head_too_wide_for_the_chip_is_left() -> None:
    assert KernelKind.ATTENTION not in joined(
        Case(batch=1, heads=1, m=200, n=200, d=4000, v=4000).program()
    )


@pytest.mark.parametrize("tokens", [64, 100, 128, 200, 256, 512, 700])
@pytest.mark.parametrize("cores", [1, 8])
def test_estimates_are_what_the_cycle_model_charges(
    monkeypatch: pytest.MonkeyPatch, tokens: int, cores: int
) -> None:
    plans: list[AttentionTiling] = []

    def noted(form: AttentionPattern, machine: MachineParameters) -> AttentionTiling | None:
        found = attention_plan(form, machine)
        plans.extend([found] if found else [])
        return found

    monkeypatch.setattr(attention, "attention_plan", noted)
    machine = replace(M7032, cores=cores)
    for dtype in ("f32", "f64"):
        case = Case(batch=1, heads=12, m=tokens, n=tokens, d=64, v=64, dtype=dtype)
        text = assembly(case.program(), machine)
        charged = cycle_model.model(text, machine=machine, cores=cores).cycles
        assert 0.9 < plans[-1].cycles / charged < 1.1
