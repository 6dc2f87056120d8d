"""Pass `fuse-gemm-prologue`: results, and that the estimate of the fused kernel holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.gemm.operand_roles import find_schedule
from ftm_backend.perf_model import cycle_model
from midend.harness import DTYPES, tune
from midend.trace_builder import Program
from midend.trace_programs import M7032, check, lowered, planned

CASES = {  # op, shapes of the factor and of x, stride of a convolution
    "as it lies": ("mm", (200, 300), (300, 130)),
    "transposed": ("tn", (301, 77), (301, 150)),
    "of a transposed one": ("nt", (65, 258), (141, 258)),
    "the second one": ("second", (190, 97), (83, 190)),
    "weights": ("weights of 3", (2, 20, 23, 21), (2, 5, 23, 21)),
    "a network's first weights": ("weights of 7", (3, 64, 28, 28), (3, 3, 56, 56), 2),
    "windows": ("windows", (3, 12, 33, 31), (24, 12, 3, 3)),
    "windows by 2": ("windows", (3, 9, 38, 36), (40, 9, 5, 5), 2),
    "weights of one tap": ("weights of 1", (2, 33, 17, 19), (2, 18, 17, 19)),
}


def product(
    op: str, factor: tuple[int, ...], x: tuple[int, ...], stride: int = 1, dtype: str = "f32"
) -> Program:
    """A factor ``p * scale - q`` of a product with ``x``.

    op: ``mm``: [m, k] times [k, n], ``tn``: of [k, m] transposed, ``nt``: times [n, k] transposed;
    ``weights of 3``: the gradient of 3x3 weights of a convolution of ``x`` that the factor is the
    gradient of the result of; ``windows``: a convolution of the factor, by ``x``. second: the
    factor is the right one.
    """
    program = Program(dtype)
    channels = (1, factor[1], 1, 1) if len(factor) == 4 else (factor[1],)
    p, scale, q, other = (program.integers(*shape) for shape in (factor, channels, factor, x))
    made = program.call("mul.Tensor", self=p, other=scale)
    made = program.call("sub.Tensor", self=made, other=q, alpha=1)
    if op.startswith("weights"):
        side = int(op.rsplit(maxsplit=1)[-1])
        weights = program.random(factor[1], x[1], side, side)
        where = {"stride": stride, "padding": side // 2}
        return program.returns(
            program.convolution_backward(made, other, weights, (False, True), **where)[1]
        )
    if op == "windows":
        return program.returns(program.convolution(made, other, stride=stride))
    left, right = (other, made) if op == "second" else (made, other)
    left = program.transposed(left) if op == "tn" else left
    right = program.transposed(right) if op == "nt" else right
    return program.returns(program.call("mm", self=left, mat2=right))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, fuse_gemm_prologue="fuse")


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_every_factor(name: str, cores: int) -> None:
    program = product(*CASES[name])
    kernels = planned(program, replace(M7032, cores=cores))
    assert any(
        kernel.kind is KernelKind.CONTRACTION_WITH_PROLOGUE for kernel in kernels.kernels
    ) == (cores > 1)
    check(program, lowered(kernels), *{cores, 3})


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["transposed", "a network's first weights"])
def test_every_type(name: str, dtype: str) -> None:
    program = product(*CASES[name], dtype=dtype)
    check(program, lowered(planned(program, replace(M7032, cores=3))), 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kilobytes", [40, 96])
@pytest.mark.parametrize("name", CASES)
def test_small_scratchpads(name: str, kilobytes: int) -> None:
    program = product(*CASES[name])
    machine = replace(M7032, cores=3, am_bytes=kilobytes * 1024)
    check(program, lowered(planned(program, machine)), 3)


def test_a_network_s_first_weights_pay() -> None:
    """In one kernel, whose estimate the cycle model agrees with."""
    program = planned(product("weights of 7", (8, 64, 112, 112), (8, 3, 224, 224), 2))
    assert program.kernels[0].kind is KernelKind.CONTRACTION_WITH_PROLOGUE
    (kernel,) = [k for k in program.kernels if k.kind is KernelKind.CONTRACTION_WITH_PROLOGUE]
    plan = find_schedule(kernel.aligned, kernel.machine, kernel.statements[:-1]).plan
    (charged,) = [
        k.cycles
        for k in cycle_model.model(lowered(program), machine="m7032", cores=8).kernels
        if k.name.endswith("_0")
    ]
    assert 0.9 <= plan.cycles / charged <= 1.1
