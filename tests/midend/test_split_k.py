"""Schedules that split k: results, choice and estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import pytest

from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.gemm import operand_roles, panel_search
from ftm_backend.midend.schedule.gemm.schedule import Schedule, Share
from ftm_backend.midend.schedule.gemm.tiling_problem import OperandTraffic, TileCut, TilingProblem
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend import test_deferred_epilogue, test_fuse_conv_backward, test_fuse_gemm_prologue
from midend.harness import tune
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check, convolution, lowered, planned

M, N, K = test_deferred_epilogue.M, test_deferred_epilogue.N, test_deferred_epilogue.K
GRIDS: dict[str, tuple[int, int, int, Share]] = {
    "all": (1, 1, 8, "none"),
    "rows": (2, 1, 4, "none"),
    "columns": (1, 2, 3, "none"),
    "both": (2, 2, 2, "none"),
    "shared": (1, 2, 3, "a"),
    "both shared": (2, 2, 2, "a"),
}
"""Groups of rows and columns for each part of k, the number of parts, and the shared operand."""
TOLERANCE = {"f32": 1e-4, "f64": 1e-11, "f16": 4e-3, "bf16": 3e-2}
FORMS = {name: form for name, form in test_deferred_epilogue.FORMS.items() if form[3] != "dot"}


def weight(
    images: int,
    channels: int,
    filters: int,
    side: int,
    window: int,
    stride: int = 1,
    dtype: str = "f32",
) -> Program:
    """The gradient of a convolution's weight."""
    sizes = (side, side), (window, window)
    where = {"stride": stride, "padding": window // 2}
    return convolution("weight", images, channels, filters, *sizes, dtype, **where)


def _cut(extent: int, size: int) -> TileCut:
    return TileCut(0, min(size, extent), min(size, extent), -(-extent // size))


def _force(monkeypatch: pytest.MonkeyPatch, grid: str, form: str, k_size: int, chunk: int) -> None:
    """Lets the product be planned so."""
    rows, columns, parts, share = GRIDS[grid]
    trans_a, _, transpose_c, b_layout, _ = FORMS[form]
    m, n, k = _cut(M, chunk), _cut(N, -(-N // columns)), _cut(K, k_size)
    plan = Schedule(
        depth=2, m=m, n=n, k=k, chunks=-(-m.blocks // rows), row_groups=rows * parts,
        column_groups=columns, m_outer=True, a_space="gsm" if columns > 1 else "sm", share=share,
        trans_a=trans_a, b_layout=b_layout, transpose_c=transpose_c, k_groups=parts,
    )  # fmt: skip
    monkeypatch.setattr(operand_roles, "cheapest", lambda problems, machine: (0, plan))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize(("k_size", "chunk"), [(6, 6), (16, 1), (35, 12), (80, 24)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("grid", GRIDS)
def test_what_is_computed(
    monkeypatch: pytest.MonkeyPatch, grid: str, form: str, k_size: int, chunk: int, follows: bool
) -> None:
    _force(monkeypatch, grid, form, k_size, chunk)
    program = test_deferred_epilogue.product(form, follows)
    check(program, assembly(program), 1, 2, 3, 7, 8, tolerance=0)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TilingProblem]]:
    """Sums are cut wherever a plan fits, in no other way; the problems for which one did."""
    found: list[TilingProblem] = []

    split = panel_search._split

    def planned(problem: TilingProblem, machine: MachineParameters, limit: float) -> object:
        made = split(problem, machine, inf)
        if made is not None:
            found.append(problem)
        return made

    monkeypatch.setattr(panel_search, "_split", planned)
    monkeypatch.setattr(panel_search, "_is_short", lambda *_: False)
    panel_search.panel_schedule.cache_clear()
    yield found
    panel_search.panel_schedule.cache_clear()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize(
    "shape",
    [
        (8, 3, 20, 61, 7, 2),
        (8, 20, 17, 41, 3, 1),
        (3, 70, 45, 9, 3, 1),
        (16, 32, 64, 20, 1, 2),
        (5, 96, 130, 7, 3, 2),
    ],
    ids=str,
)
def test_gradients_of_weights(
    always: list[TilingProblem], shape: tuple[int, ...], cores: int
) -> None:
    gradients(always, shape, cores, "f32")


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
def test_types(always: list[TilingProblem], dtype: str) -> None:
    gradients(always, (8, 20, 17, 41, 3, 1), 3, dtype)


def gradients(cut: list[TilingProblem], shape: tuple[int, ...], cores: int, dtype: str) -> None:
    """The gradient of a convolution's weights."""
    program = weight(*shape, dtype)
    check(program, assembly(program), cores, tolerance=TOLERANCE[dtype])
    assert cut


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("name", ["3x3", "3x3 by 2, odd", "1x1 by 2", "5x5 by 3"])
def test_updates(
    always: list[TilingProblem], monkeypatch: pytest.MonkeyPatch, name: str, cores: int
) -> None:
    """Weights that are updated with their gradient where its parts are added up."""
    tune(monkeypatch, fuse_conv_backward="keep")
    program = test_fuse_conv_backward.update(*test_fuse_conv_backward.SHAPES[name])
    check(program, assembly(program), cores, tolerance=1e-4)
    assert always


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("name", ["weights", "a network's first weights"])
def test_factors_that_are_computed(
    always: list[TilingProblem], monkeypatch: pytest.MonkeyPatch, name: str, cores: int
) -> None:
    tune(monkeypatch, fuse_gemm_prologue="fuse")
    program = test_fuse_gemm_prologue.product(*test_fuse_gemm_prologue.CASES[name])
    kernels = planned(program)
    assert any(kernel.kind is KernelKind.CONTRACTION_WITH_PROLOGUE for kernel in kernels.kernels)
    check(program, lowered(kernels), cores)
    assert any(problem.b_prologue.tiles for problem in always)


# --- choice of plans
# ----------------------------------------------------------------------------------


def gradient(shape: tuple[int, ...]) -> tuple[Schedule, float]:
    """How the gradient of a convolution's weights is planned, and the cycles that it is charged."""
    program = weight(*shape)
    plans = [
        operand_roles.find_schedule(kernel.aligned, M7032).plan
        for kernel in planned(program).kernels
        if kernel.kind is KernelKind.CONTRACTION
    ]
    (plan,) = plans
    assert plan is not None
    return plan, cycle_model.model(assembly(program), machine="m7032", cores=8).cycles


SMALL = [(8, 64, 64, 56, 3), (8, 64, 128, 56, 3, 2), (8, 128, 128, 28, 3), (16, 64, 64, 56, 3)]


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_small_results_of_long_sums_are_cut_and_charged_as_planned(shape: tuple[int, ...]) -> None:
    plan, charged = gradient(shape)
    assert plan.k_groups > 1 and plan.cores == 8
    assert plan.cycles == pytest.approx(charged, rel=0.03)


def test_large_results_are_not_cut() -> None:
    plan, _ = gradient((8, 512, 512, 7, 3))
    assert plan.k_groups == 1


def test_short_products_with_deep_sums_are_cut() -> None:
    a, b = OperandTraffic("f32", (0, 10610), False), OperandTraffic("f32", (10610, 0), False)
    c = OperandTraffic("f32", (0, 4), False)
    problem = TilingProblem((), (21,), (4,), (10610,), a, b, c, "f32", can_split_k=True)
    cut = panel_search.panel_schedule(problem, M7032)
    whole = panel_search.panel_schedule(replace(problem, can_split_k=False), M7032)
    assert cut is not None and whole is not None
    assert cut.k_groups > 1 == whole.k_groups and cut.cycles < 0.88 * whole.cycles


def test_what_starts_elsewhere_is_not_cut() -> None:
    """Of a sum that is added to something every part would start there."""
    a, b, c = (
        OperandTraffic("f32", (0, 25088), False),
        OperandTraffic("f32", (25088, 0), False),
        OperandTraffic("f32", (64, 0), False),
    )
    problem = TilingProblem((), (576,), (64,), (25088,), a, b, c, "f32")
    assert panel_search._split(problem, M7032, inf) is None
    assert panel_search._split(replace(problem, can_split_k=True), M7032, inf) is not None


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_it_pays(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def modelled() -> float:
        panel_search.panel_schedule.cache_clear()
        text = assembly(weight(8, 64, 64, 56, 3))
        return cycle_model.model(text, machine="m7032", cores=cores).cycles

    cut = modelled()
    monkeypatch.setattr(panel_search, "_split", lambda *_: None)
    assert cut < 1.05 * modelled(), "on fewer cores it costs no more than a little"
    panel_search.panel_schedule.cache_clear()


def test_parts_of_k_share_an_operand() -> None:
    """256 x 256 x 32768 on 24 cores: cores that compute the same rows of a part load A once."""
    a = b = OperandTraffic("f64", (0, 256), False)
    a = replace(a, runs=(0, 32768))
    problem = TilingProblem((), (256,), (256,), (32768,), a, b, b, "f64", can_split_k=True)
    plan = panel_search.panel_schedule(problem, presets.load("mt3000"))
    assert plan is not None and plan.k_groups > 1 and plan.share == "a" and plan.cores == 24
    whole = panel_search.panel_schedule(replace(problem, can_split_k=False), presets.load("mt3000"))
    assert whole is not None and plan.cycles < 0.8 * whole.cycles


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_entries_of_a_batch_are_split(layout: str, cores: int) -> None:
    """Two entries of 31 x 40 x 16000 have too few panels for 8 cores."""
    program, operands = Program(), []
    for rows, columns, side in ((31, 16000, layout[0]), (16000, 40, layout[1])):
        flat = program.integers(2 * rows * columns)
        steps = [1, rows] if side == "T" else [columns, 1]
        operands.append(program.view(flat, [2, rows, columns], [rows * columns, *steps]))
    program.returns(program.relu(program.call("bmm", self=operands[0], mat2=operands[1])))
    text = assembly(program)
    (kernel,) = planned(program).kernels
    assert kernel.schedule is not None and kernel.schedule.k_groups > 1
    check(program, text, cores, tolerance=0)
