"""Transposed convolutions as a product and col2im: results, matching and plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.retry_policy import Restrictions
from ftm_backend.midend.schedule.gemm import candidate_tile_sizes, panel_search
from ftm_backend.midend.schedule.gemm.kernel_schedule import schedule_statements
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import tune
from midend.trace_builder import Program
from midend.trace_programs import M7032, after, assembly, check, convolution, linalg

TOLERANCE = {"f32": 1e-4, "f64": 1e-10, "bf16": 5e-2, "f16": 5e-3}

SHAPES: dict[str, tuple[Any, ...]] = {
    # images, channels, filters, size of the image, window, stride, padding, dilation, groups (1)
    "3x3": (3, 7, 20, (9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    "3x3 by 2": (5, 7, 11, (14, 18), (3, 3), (2, 2), (1, 1), (1, 1)),
    "odd sizes": (2, 5, 9, (15, 13), (3, 3), (2, 2), (1, 1), (1, 1)),
    "7x7 by 2, three channels": (2, 3, 16, (28, 32), (7, 7), (2, 2), (3, 3), (1, 1)),
    "1x1 by 2": (9, 6, 5, (8, 8), (1, 1), (2, 2), (0, 0), (1, 1)),
    "1x1 by 2, odd": (2, 6, 5, (9, 7), (1, 1), (2, 2), (0, 0), (1, 1)),
    "one place": (17, 30, 40, (1, 1), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one window": (16, 12, 40, (2, 2), (3, 3), (2, 2), (1, 1), (1, 1)),
    "5x4 by 3 and 2": (2, 6, 5, (17, 22), (5, 4), (3, 2), (2, 0), (1, 1)),
    "stride beyond the window": (2, 4, 6, (13, 15), (2, 2), (4, 3), (0, 0), (1, 1)),
    "dilation 3": (1, 4, 6, (17, 19), (3, 2), (2, 2), (3, 1), (3, 3)),
    "dilation 2, stride 1": (2, 4, 6, (12, 10), (3, 3), (1, 1), (2, 2), (2, 2)),
    "one image, one channel": (1, 1, 4, (6, 6), (3, 3), (2, 2), (1, 1), (1, 1)),
    "vectors": (1, 1, 12, (10, 8), (7, 7), (1, 1), (3, 3), (1, 1)),
    "one filter, one channel": (8, 1, 1, (33, 5), (1, 1), (1, 1), (0, 0), (1, 1)),
    "more than a block": (3, 70, 130, (20, 20), (3, 3), (2, 2), (1, 1), (1, 1)),
    "7x7 by 2, large": (1, 2, 5, (134, 130), (7, 7), (2, 2), (3, 3), (1, 1)),
    "few windows": (16, 64, 128, (4, 4), (3, 3), (2, 2), (1, 1), (1, 1)),
    "pixels that no window sees": (2, 3, 4, (11, 12), (3, 3), (2, 4), (0, 0), (1, 1)),
    "two groups": (3, 8, 12, (14, 18), (3, 3), (2, 2), (1, 1), (1, 1), 2),
    "groups of more than a block": (2, 64, 128, (20, 20), (5, 4), (3, 2), (2, 0), (1, 1), 2),
    "groups of few windows": (3, 128, 128, (4, 4), (3, 3), (2, 2), (1, 1), (1, 1), 4),
    "depthwise": (2, 6, 6, (14, 11), (3, 3), (2, 2), (1, 1), (1, 1), 6),
}
VOLUMES: dict[str, tuple[Any, ...]] = {
    "2x2x2 by 2": (2, 6, 20, (8, 10, 8), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1)),
    "3x3x3 by 2": (2, 7, 20, (7, 9, 9), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    "groups": (2, 6, 8, (8, 6, 9), (3, 2, 3), (2, 2, 2), (1, 0, 1), (1, 1, 1), 2),
    "planes that no tap sees": (1, 6, 4, (13, 6, 9), (2, 2, 2), (3, 2, 2), (0, 0, 0), (1, 1, 1)),
    "a depth without a stride": (2, 5, 9, (6, 8, 9), (3, 3, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1)),
    "taps two planes apart": (1, 6, 4, (12, 12, 12), (3, 3, 3), (2, 2, 2), (2, 1, 1), (2, 1, 1)),
    "taps of the depth alone": (2, 6, 4, (8, 4, 4), (4, 1, 1), (2, 2, 2), (1, 0, 0), (1, 1, 1)),
    "narrower than the stride": (2, 4, 6, (2, 1, 9), (3, 3, 3), (3, 3, 3), (1, 1, 1), (1, 1, 1)),
}


def where(name: str) -> dict[str, Any]:
    numbers = (SHAPES | VOLUMES)[name][5:]
    return dict(zip(("stride", "padding", "dilation", "groups"), numbers, strict=False))


def gradient(name: str, dtype: str = "f32", transposed: bool = False) -> Program:
    """An input's gradient or a transposed convolution."""
    direction = "transposed" if transposed else "input"
    return convolution(direction, *(SHAPES | VOLUMES)[name][:5], dtype=dtype, **where(name))


def run(program: Program, cores: int, machine: str = "m7032", folds: bool = True) -> None:
    text = assembly(program, replace(presets.load(machine), cores=cores))
    assert "FOLD" in text or not folds
    check(program, text, cores, tolerance=TOLERANCE[program.dtype])


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It always pays."""
    tune(monkeypatch, conv_transpose="col2im")


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_the_input(name: str, cores: int) -> None:
    run(gradient(name), cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("name", VOLUMES)
@pytest.mark.parametrize("transposed", [False, True])
def test_volumes(name: str, cores: int, transposed: bool) -> None:
    run(gradient(name, transposed=transposed), cores)


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_by_phases(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, conv_transpose="phases")
    run(gradient(name, "f64"), 2, folds=False)


def test_parts_of_a_volume_are_stored_where_they_belong() -> None:
    """One kernel for each phase of the depth, and no copy."""
    text = assembly(gradient("2x2x2 by 2"))
    assert text.count("@func ") == 2 + 1, "the kernels and main"


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_folded_where_it_pays(name: str, transposed: bool) -> None:
    """Also where the phases' products are no work for the matrix unit, as those of single
    channels."""
    run(gradient(name, transposed=transposed), 8, folds=False)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize(
    "name",
    ["3x3 by 2", "7x7 by 2, three channels", "1x1 by 2, odd", "one window", "more than a block"],
)
def test_types(name: str, dtype: str) -> None:
    run(gradient(name, dtype), 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    run(gradient("3x3 by 2"), 2, machine)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "name", ["3x3 by 2", "5x4 by 3 and 2", "dilation 3", "stride beyond the window"]
)
def test_transposed_convolution(name: str) -> None:
    run(gradient(name, transposed=True), 3)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of few windows, so that they are rows of small images, too."""
    caches = (panel_search.panel_schedule, panel_search._coarse)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(candidate_tile_sizes, "LARGE_FEATURE_MAP", 0)
    monkeypatch.setitem(candidate_tile_sizes.LARGEST, "n", 64)
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("always", "small_blocks")
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize(
    "name", [name for name in SHAPES if "large" not in name and name != "vectors"]
)
def test_rows_of_images(name: str, cores: int) -> None:
    """Windows that see rows of two blocks are computed for both."""
    run(gradient(name), cores)


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_few_windows_of_an_image_wait_as_they_lie(dtype: str, cores: int) -> None:
    """Where cores share them, their rows are put together on chip."""
    program = gradient("few windows", dtype)
    (made,) = folded(program)
    found = schedule_statements(KernelKind.COL2IM, [made], M7032)
    assert found is not None and found.plan is not None
    assert found.plan.split_rows
    run(program, cores)


def folded(program: Program) -> list[Statement]:
    """The statements that the pass creates."""
    return [
        item
        for item in after(program, "choose-algorithm").body
        if isinstance(item, Statement) and item.op == "ftm.conv_transpose"
    ]


def square(direction: str, side: int, window: int, stride: int, groups: int = 1) -> Program:
    """A convolution of 16 images of 64 channels, with 128 filters."""
    sizes = (side, side), (window, window)
    given = {"stride": stride, "padding": window // 2, "groups": groups}
    return convolution(direction, 16, 64, 128, *sizes, **given)


@pytest.mark.parametrize("arguments", [("forward", 28, 3, 2), ("forward", 28, 3, 1)])
def test_what_is_no_transposed_convolution_stays(arguments: tuple[str, int, int, int]) -> None:
    assert not folded(square(*arguments))


@pytest.mark.parametrize(
    ("side", "window", "stride"), [(28, 3, 2), (56, 1, 2), (14, 3, 2), (32, 3, 2)]
)
def test_a_plan_costs_what_is_charged(side: int, window: int, stride: int) -> None:
    """Within 10%; where all is over soon, within 20%."""
    program = square("input", side, window, stride)
    (made,) = folded(program)
    found = schedule_statements(KernelKind.COL2IM, [made], M7032)
    assert found is not None and found.plan is not None
    profile = cycle_model.model(assembly(program), machine="m7032", cores=8)
    charged = sum(kernel.cycles for kernel in profile.kernels if kernel.flops)
    assert found.plan.cycles == pytest.approx(charged, rel=0.1 if side > 14 else 0.2)


VIEWS = {  # strides and offset
    "a slice": ([2970, 99, 11, 1], 495),
    "channels last": ([1980, 1, 220, 20], 0),
    "a broadcast": ([1980, 0, 11, 1], 0),
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_read_in_place(name: str) -> None:
    """A broadcast tensor is no operand of col2im, whatever the user wants."""
    program = Program()
    view = program.view(program.random(3, 30, 9, 11), [3, 20, 9, 11], *VIEWS[name])
    w = program.random(20, 7, 3, 3)
    program.returns(program.convolution(view, w, stride=2, padding=1, transposed=True))
    run(program, 3, folds=name != "a broadcast")


def test_another_attempt_takes_the_expansion() -> None:
    """A compilation that leaves the choice out has phases, also where col2im is cheaper."""
    function = linalg(gradient("3x3 by 2"))
    restrictions = Restrictions(skipped=frozenset(["choose-algorithm"]))
    for step in pipeline.pipeline(M7032):
        function = pipeline.apply(step, function, M7032, restrictions)
    assert "FOLD" not in pipeline.TILES.write(function, "")
