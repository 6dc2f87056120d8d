"""Attention's backward: results equal the CPU's, for all masks and numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.attention import backward as attention_backward
from ftm_backend.midend.lowering.attention.backward_workspace import BackwardSizes
from ftm_backend.midend.schedule.attention.backward_tiling import BackwardTiling, backward_plan
from ftm_backend.midend.schedule.attention.match_backward import AttentionBackwardPattern
from ftm_backend.perf_model import cycle_model
from ftm_backend.target.presets import MachineParameters
from midend.attention_programs import CASES as FORWARD
from midend.attention_programs import M7032, Case, check, joined
from midend.trace_builder import Program
from midend.trace_programs import after, assembly

TIGHT = replace(M7032, am_bytes=96 * 1024, sm_bytes=2 * 1024, gsm_bytes=48 * 1024)
"""Scratchpads so small that small attentions have several blocks."""

CASES = {
    name: replace(case, backward=True) for name, case in FORWARD.items() if not case.turned_result
}


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str) -> None:
    assert joined(CASES[name].program()) == [KernelKind.ATTENTION_BACKWARD]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, cores: int) -> None:
    for machine in (TIGHT, M7032):
        check(
            CASES[name],
            replace(machine, cores=cores),
            sorted({1, 3, cores}) if machine is TIGHT else [cores],
        )


def use_plan(
    monkeypatch: pytest.MonkeyPatch, keys: int, queries: int, cores: int, rounds: int, slots: int
) -> None:
    """Lower with groups of ``cores`` cores; a core holds ``rounds`` slices of all keys."""
    while (cores * rounds - 1) * -(-keys // (cores * rounds)) >= keys:  # an empty slice
        cores, rounds = (cores, rounds - 1) if rounds > 1 else (cores - 1, rounds)
    held = -(-keys // (cores * rounds))
    sizes = BackwardSizes(held, queries, cores, max(1, 8 // cores), rounds, slots)
    monkeypatch.setattr(
        attention_backward, "backward_plan", lambda form, machine, cores: BackwardTiling(1.0, sizes)
    )


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("cores", "rounds", "queries", "slots"),
    [
        (1, 1, 16, 1),
        (1, 1, 33, 2),
        (2, 1, 8, 1),
        (3, 1, 16, 2),
        (6, 1, 7, 1),
        (8, 1, 33, 1),
        (1, 2, 8, 2),
        (1, 3, 33, 1),
        (1, 4, 17, 2),
        (2, 2, 33, 2),
        (3, 2, 7, 1),
        (2, 3, 17, 2),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_every_plan_is_right(
    monkeypatch: pytest.MonkeyPatch, name: str, cores: int, rounds: int, queries: int, slots: int
) -> None:
    use_plan(monkeypatch, CASES[name].n, queries, cores, rounds, slots)
    check(CASES[name], M7032, [1, 2, 3, 8])


def test_gradients_stored_by_columns_are_one_kernel() -> None:
    """Autograd writes the gradient of ``k.mT`` as columns."""
    case = replace(CASES["plain"], columns=True)
    assert joined(case.program()) == [KernelKind.ATTENTION_BACKWARD]
    for cores in (1, 3, 8):
        check(case, replace(TIGHT, cores=cores), sorted({1, cores}))


@pytest.mark.parametrize(("cores", "rounds"), [(1, 1), (3, 1), (1, 3), (3, 2)])
def test_rows_without_scores_in_a_slice(
    monkeypatch: pytest.MonkeyPatch, cores: int, rounds: int
) -> None:
    for safe in (False, True):
        case = Case(mask="where", safe=safe, m=40, n=90, backward=True)
        use_plan(monkeypatch, case.n, 16, cores, rounds, 1)
        inputs = case.inputs()
        q, k, values, mask, grad = inputs
        mask[3] = False  # no score at all: NaN, or the program's value
        mask[4, :60] = False  # none in the first slices
        mask[5, 30:] = False
        check(case, M7032, [1, 8], inputs, 0.25)
        q[0, 0, 7, 2] = math.nan
        q[0, 1, 8] = 1e20  # scores that overflow
        k[1, 0, 60, 1] = math.inf
        values[1, 1, 12, 3] = math.inf
        grad[5, 5, 3] = math.nan
        check(case, M7032, [1, 8], inputs, 0.25)


@pytest.mark.parametrize("form", ["", "safe", "one_op"])
@pytest.mark.parametrize("given", [0.0, 0.25])
@pytest.mark.parametrize("machine", [TIGHT, M7032], ids=["tight", "m7032"])
def test_rows_without_scores_and_numbers_that_are_none(
    machine: MachineParameters, given: float, form: str
) -> None:
    case = Case(
        mask="where", safe=form == "safe", one_op=form == "one_op", m=40, n=90, backward=True
    )
    inputs = case.inputs()
    q, k, values, mask, grad = inputs
    mask[3] = False  # no score at all: NaN, or the program's value
    mask[4, :60] = False  # none in the first blocks
    mask[5, 30:] = False
    check(case, replace(machine, cores=3), [1, 3], inputs, given)
    q[0, 0, 7, 2] = math.nan
    q[0, 1, 8] = 1e20  # scores that overflow
    k[1, 0, 60, 1] = math.inf
    values[1, 1, 12, 3] = math.inf
    grad[5, 5, 3] = math.nan
    check(case, replace(machine, cores=3), [1, 3], inputs, given)


@pytest.mark.parametrize(
    "sizes",
    [{"m": 0}, {"n": 0}, {"v": 0}, {"d": 0}, {"batch": 0}, {"m": 1}, {"n": 1}, {"v": 1}, {"d": 1}],
)
def test_thin_and_empty(sizes: dict[str, int]) -> None:
    check(Case(backward=True, **sizes), replace(M7032, cores=3), [3])


def test_slopes_that_are_wanted_stay_in_memory() -> None:
    program = Case(backward=True).program()
    program.returns(program.result_of("_softmax_backward_data"), *program.results)
    assert KernelKind.ATTENTION_BACKWARD not in joined(program)


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("name", ["plain", "added mask", "all", "f16"])
def test_result_and_gradients_are_a_kernel_each(name: str, cores: int) -> None:
    case = replace(CASES[name], both=True)
    assert joined(case.program()) == [KernelKind.ATTENTION, KernelKind.ATTENTION_BACKWARD]
    check(case, replace(TIGHT, cores=cores), [cores])
    assert_is_read_back(case.program())


def test_weights_that_others_want_are_computed_again() -> None:
    program = Case(backward=True, both=True).program()
    program.returns(program.result_of("_softmax"), *program.results)
    kinds = joined(program)
    assert kinds[-1] == KernelKind.ATTENTION_BACKWARD and KernelKind.ATTENTION not in kinds
    assert_is_read_back(program)


def assert_is_read_back(program: Program) -> None:
    """The text of the kernels, read and written again, is the same."""
    text = pipeline.KERNELS.write(after(program, "fuse-attention"), "fuse-attention")
    again = pipeline.KERNELS.read(text, M7032)
    assert pipeline.KERNELS.write(again, "fuse-attention") == text


def test_a_head_too_wide_for_the_chip_is_left() -> None:
    assert KernelKind.ATTENTION_BACKWARD not in joined(
        Case(batch=1, heads=1, m=200, n=200, d=4000, v=4000, backward=True).program()
    )


@pytest.mark.parametrize("tokens", [100, 256, 384, 512, 700])
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_estimates_are_what_the_cycle_model_charges(
    monkeypatch: pytest.MonkeyPatch, tokens: int, cores: int
) -> None:
    plans: list[BackwardTiling] = []

    def noted(
        form: AttentionBackwardPattern, machine: MachineParameters, cores: int
    ) -> BackwardTiling | None:
        found = backward_plan(form, machine, cores)
        plans.extend([found] if found else [])
        return found

    monkeypatch.setattr(attention_backward, "backward_plan", noted)
    # one core computes some of these faster without fusion
    machine = replace(M7032, cores=cores, choices=(("fuse-attention-backward", "fuse"),))
    for dtype in ("f32", "f64"):
        sizes = {"batch": 1, "heads": 12, "m": tokens, "n": tokens, "d": 64, "v": 64}
        text = assembly(Case(**sizes, dtype=dtype, backward=True).program(), machine)
        charged = cycle_model.model(text, machine=machine, cores=cores).cycles
        assert 0.93 < plans[-1].cycles / charged < 1.07
