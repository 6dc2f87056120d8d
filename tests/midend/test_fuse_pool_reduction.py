"""Pass `fuse-pool-reduction`: results, and which sums are taken where images are pooled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.perf_model import cycle_model
from ftm_backend.target.presets import MachineParameters
from midend.harness import TOLERANCE, tune
from midend.stems import stem
from midend.trace_builder import Program
from midend.trace_programs import M7032, after, assembly, check

SMALL = replace(M7032, am_bytes=96 * 1024)
"""Tiles do not hold several channels of small images there."""


def sums(dims: tuple[int, ...] = (), **given: Any) -> Program:
    """The gradient of a normalized image behind activation and pooling, and its sums: the gradients
    of the normalization's parameters, or one over ``dims``."""
    made = stem(**given)
    if dims:
        over = {"dim": dims, "keepdim": False, "dtype": None}
        found = [made.program.call("sum.dim_IntList", self=made.gradient, **over)]
    else:
        found = made.batch_norm_backward(of_image=False)[1:]
    return made.program.returns(made.gradient, *found)


def is_joined(program: Program, machine: MachineParameters = SMALL) -> bool:
    kernels = after(program, "fuse-pool-reduction", machine).kernels
    return any(kernel.kind is KernelKind.LINE_BUFFER_WITH_REDUCTION for kernel in kernels)


def run(program: Program, *cores: int, **machine: int) -> None:
    text = assembly(program, replace(SMALL, **machine))
    check(program, text, *cores, tolerance=20 * TOLERANCE[program.dtype])


CASES: dict[str, dict[str, Any]] = {
    "a network's first": {"shape": (2, 32, 40, 40)},
    "odd images": {"shape": (3, 21, 29, 37)},
    "many channels": {"shape": (3, 131, 22, 26)},
    "many images": {"shape": (37, 5, 24, 26)},
    "windows apart": {
        "shape": (2, 40, 32, 33), "kernel": (2, 3), "stride": (3, 4), "padding": (0, 1),
    },
    "neighbours": {"shape": (2, 33, 32, 34), "kernel": (2, 2), "padding": (0, 0)},
    "NaN and inf": {"shape": (3, 33, 40, 36), "special": True},
    "each plane": {"shape": (2, 40, 30, 34), "dims": (2, 3)},
}  # fmt: skip


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pays wherever it is possible."""
    tune(monkeypatch, fuse_pool_reduction="fuse")


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, cores: int) -> None:
    run(sums(**CASES[name]), *{cores, 3}, cores=cores)


@pytest.mark.usefixtures("always")
def test_what_is_joined() -> None:
    joined = {name for name, given in CASES.items() if is_joined(sums(**given))}
    assert joined >= {"a network's first", "many channels", "NaN and inf", "each plane"}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dims", [(0, 1, 2, 3), (1, 2, 3), (3,), (0,)])
def test_sums_that_do_not_go_with_strips(dims: tuple[int, ...]) -> None:
    run(sums(shape=(3, 16, 22, 26), dims=dims), 3, cores=3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
@pytest.mark.parametrize("name", ["a network's first", "many channels"])
def test_types(name: str, dtype: str) -> None:
    run(sums(**CASES[name], dtype=dtype), 3, cores=3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kilobytes", [48, 160, 768])
def test_other_scratchpads(kilobytes: int) -> None:
    run(sums(shape=(2, 32, 40, 40)), 3, cores=3, am_bytes=kilobytes * 1024)


def test_it_is_done_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    program = sums(shape=(8, 16, 64, 64))

    def cycles() -> float:
        return cycle_model.model(assembly(program), machine="m7032", cores=8).cycles

    assert is_joined(program, M7032)
    fused = cycles()
    tune(monkeypatch, fuse_pool_reduction="keep")
    assert fused < cycles()
