"""Pass `fuse-conv-transpose-epilogue`: results and DDR traffic."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import pytest

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.gemm.kernel_schedule import schedule_statements
from ftm_backend.midend.transforms.tensor.producer_inlining import is_whole
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.harness import TOLERANCE, tune
from midend.test_conv_transpose import SHAPES, gradient, square, where
from midend.trace_builder import Program
from midend.trace_programs import M7032, after, assembly, check


def masked(
    name: str,
    dtype: str = "f32",
    kept: bool = False,
    scaled: bool = False,
    numbers: tuple[float, ...] = (),
) -> Program:
    """An image's gradient, to which another one is added, masked as an activation was; returned
    with its sum over each channel.

    kept: the gradient by itself is returned, too. scaled: a number for each channel takes the other
        gradient's place.
    """
    n, c, f, size, window, *_ = SHAPES[name]
    program = Program(dtype)
    groups = where(name).get("groups", 1)
    x, w = program.random(n, c, *size), program.random(f, c // groups, *window)
    other = program.random(*((1, c, 1, 1) if scaled else (n, c, *size)))
    for place, number in enumerate(numbers):
        other.exact.view(-1)[5 * place] = number
        x.exact.view(-1)[7 * place + 1] = number
    out = Program(dtype).convolution(x, w, **where(name)).shape
    mask = (True, False)
    made, _ = program.convolution_backward(program.random(*out), x, w, mask, **where(name))
    result = program.relu_backward(program.add(made, other), x)
    over = {"dim": [0, 2, 3], "keepdim": False, "dtype": None}
    total = program.call("sum.dim_IntList", self=result, **over)
    return program.returns(*[made] * kept, result, total)


def run(program: Program, cores: int, machine: str = "m7032") -> None:
    text = assembly(program, replace(presets.load(machine), cores=cores))
    check(program, text, cores, tolerance=4 * TOLERANCE[program.dtype])


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both passes always pay."""
    tune(monkeypatch, conv_transpose="col2im", fuse_conv_transpose_epilogue="fuse")


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in SHAPES
        if name not in ("vectors", "one filter, one channel", "7x7 by 2, large")
    ],
)
def test_results(name: str, cores: int) -> None:
    run(masked(name), cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("name", ["3x3 by 2", "1x1 by 2, odd", "more than a block"])
def test_types(name: str, dtype: str) -> None:
    run(masked(name, dtype), 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("name", ["3x3", "3x3 by 2", "more than a block"])
def test_a_number_for_each_channel(name: str, cores: int) -> None:
    run(masked(name, scaled=True), cores)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_numbers_that_are_none_pass(cores: int) -> None:
    """A place that is masked has no NaN, whatever is added there."""
    run(masked("3x3 by 2", numbers=(math.nan, math.inf, -math.inf)), cores)


@pytest.mark.usefixtures("always")
def test_what_others_read_is_stored_as_it_was() -> None:
    program = masked("3x3 by 2", kept=True)
    kernels = after(program, "fuse-conv-transpose-epilogue").kernels
    (fold,) = (kernel for kernel in kernels if kernel.kind is KernelKind.COL2IM)
    assert len(fold.statements) == 1, "nothing moved behind the product"
    run(program, 3)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("machine", ["mt3000", "m7002"])
def test_other_machines(machine: str) -> None:
    run(masked("3x3 by 2"), 2, machine)


def test_moved_where_it_pays() -> None:
    """No statement reads a gradient of 56x56 elements again."""
    program = square("input", 56, 3, 2)
    program.returns(program.relu_backward(program.results[0], program.parameters[1]))
    kernels = after(program, "fuse-conv-transpose-epilogue").kernels
    (fold,) = (k for k in kernels if k.kind is KernelKind.COL2IM)
    assert len(fold.statements) == 2
    assert not any(k.kind is KernelKind.LOOP_NEST for k in kernels)
    found = schedule_statements(KernelKind.COL2IM, fold.statements, M7032)
    assert found is not None and found.plan is not None
    profile = cycle_model.model(assembly(program), machine="m7032", cores=8)
    assert found.plan.cycles == pytest.approx(
        sum(kernel.cycles for kernel in profile.kernels if kernel.flops), rel=0.12
    )


def test_a_consumer_of_the_flattened_gradient_is_another_kernel() -> None:
    program = gradient("dilation 3")  # one image, whose loop may have any coefficient
    (made,) = program.results
    program.returns(program.relu(program.view(made, [math.prod(made.shape)], [1])))
    folds = [
        k
        for k in after(program, "fuse-conv-transpose-epilogue").kernels
        if k.kind is KernelKind.COL2IM
    ]
    assert [len(fold.statements) for fold in folds] in ([], [1])
    assert not is_whole(Affine(0, (1,)), made.shape)


def test_an_updated_tensor_is_read_when_it_is_complete(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The gradient of a grouped convolution with strides is spread between zeros by an update,
    whose parts are written after the fold."""
    tune(monkeypatch, fuse_conv_transpose_epilogue="fuse")
    program = Program()
    x, mask = program.random(5, 6, 14, 18), (True, False)
    sums = []
    for filters, window, padding, groups in ((11, 3, 1, 1), (4, 1, 0, 2)):
        w = program.random(filters, 6 // groups, window, window)
        gradient = program.random(5, filters, 7, 9)
        given = {"stride": 2, "padding": padding, "groups": groups}
        sums.append(program.convolution_backward(gradient, x, w, mask, **given)[0])
    program.returns(program.add(*sums))
    with caplog.at_level(logging.INFO, "ftm_backend.driver"):
        text = driver.run_from(
            "trace", str(program), "asm", CompileOptions(machine="m7002", cores=2)
        )
    assert not caplog.records, "nothing is undone"
    check(program, text, 2, tolerance=1e-4)
