"""Pass `pack-operands`: which operands are copied, and that results stay right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.transforms.tensor.pack_operands import pack_operands
from midend.harness import tune
from midend.test_fold_pad_into_load import padded
from midend.test_transpose_on_chip import permuted
from midend.trace_builder import Program
from midend.trace_programs import M7032, after, assembly, check, convolution, linalg


@pytest.fixture(autouse=True)
def phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is one product with folded windows (``test_conv_transpose``)."""
    tune(monkeypatch, conv_transpose="phases")


def copies(program: Program) -> list[Statement]:
    """The copies that the pass adds."""
    function = linalg(program)
    before = [item for item in function.body if isinstance(item, Statement)]
    pack_operands(function, M7032)
    return [
        item
        for item in function.body
        if isinstance(item, Statement) and item.op == "linalg.copy" and item not in before
    ]


def gradient(
    images: int, filters: int, channels: int, side: int, window: int, dtype: str = "f32"
) -> Program:
    """The gradient of an input."""
    sizes = (side, side), (window, window)
    return convolution("input", images, channels, filters, *sizes, dtype, padding=window // 2)


def test_weights_that_are_read_backwards_are_copied_tap_by_tap() -> None:
    (copy,) = copies(gradient(16, 64, 64, 8, 3))
    assert copy.loops == (3, 3, 64, 64)


def test_what_lies_well_stays() -> None:
    assert not copies(padded("3x3", "forward"))
    assert not copies(permuted((300, 200), (1, 0)))
    for strides in ([1, 700], [600, 1]):
        program = Program()
        matrix = program.view(program.random(420000), [700, 600], strides)
        product = program.call("mm", self=matrix, mat2=program.random(600, 500))
        assert not copies(program.returns(product))


def test_where_the_copy_takes_longer_than_it_saves_there_is_none() -> None:
    assert not copies(gradient(2, 512, 512, 1, 3))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("shape", [(2, 64, 50, 9, 3), (1, 40, 33, 7, 5), (5, 31, 64, 4, 3)])
def test_results(shape: tuple[int, int, int, int, int], cores: int, dtype: str) -> None:
    program = gradient(*shape, dtype)
    text = assembly(program, replace(M7032, cores=cores))
    check(program, text, cores, tolerance={"f32": 1e-4, "f64": 1e-11}[dtype])


def test_what_else_reads_the_factor_does_not_take_the_copy_in() -> None:
    program = gradient(16, 64, 64, 8, 3)
    weights = program.parameters[2]
    half = program.call("mul.Scalar", self=weights, other=0.5)
    kernels = after(program.returns(*program.results, half), "fuse-ops").kernels
    assert [kernel.kind for kernel in kernels].count(KernelKind.LOOP_NEST) == 2
