"""The trace's text: the contract with the compiler."""

import textwrap
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ftm_backend.frontend import Trace
from ftm_lazy import _C
from ftm_lazy.compile.trace_importer import trace_of


def text(*tensors: Tensor) -> str:
    """The trace's text, checked by the compiler's own verifier and parser."""
    trace = trace_of(_C._trace(list(tensors)))
    trace.verify()
    assert Trace.parse(str(trace)).nodes == trace.nodes
    return str(trace)


def expect(actual: str, expected: str) -> None:
    assert actual == textwrap.dedent(expected).lstrip()


def parameter(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype).to("ftm")


def test_scalars_are_slots_and_never_merged() -> None:
    x = parameter(2)
    expect(
        text(torch.add(x * 1.5, x, alpha=1.5) + 1.5),
        """
        trace
          %0 = param f32[2]
          $0 = scalar f64
          $1 = scalar f64
          $2 = scalar f64
          $3 = scalar i64
          %1 = aten::mul.Tensor(self=%0, other=$0) : f32[2]
          %2 = aten::add.Tensor(self=%1, other=%0, alpha=$1) : f32[2]
          %3 = aten::add.Tensor(self=%2, other=$2, alpha=$3) : f32[2]
          return %3
        """,
    )


def test_in_place_and_views() -> None:
    x = parameter(2, 3)
    x.t()[1].add_(1)
    expect(
        text(x),
        """
        trace
          %0 = param f32[4]
          %1 = param f32[2,3]
          $0 = scalar i64
          $1 = scalar i64
          %2 = ftm.view(base=%0, sizes=[2], strides=[3], offset=0) : f32[2]
          %3 = aten::add.Tensor(self=%2, other=$0, alpha=$1) : f32[2]
          %4 = ftm.update(base=%1, value=%3, sizes=[2], strides=[3], offset=1) : f32[2,3]
          return %4
        """,
    )


def test_constants_of_calls_in_place() -> None:
    """The order of a norm shapes the program, for `renorm_` as for `renorm`."""
    assert "p=2, dim=0, maxnorm=$0" in text(parameter(2, 3).renorm_(2, 0, 1.5))


def test_a_boolean_is_an_operand() -> None:
    """As other Python numbers: one program for both, of the dtypes that eager promotes it to."""
    x = parameter(2, dtype=torch.bool)
    assert text(x | True) == text(x | False)
    expect(
        text(x | True),
        """
        trace
          %0 = param i1[2]
          $0 = scalar i64
          %1 = aten::full(size=[], fill_value=$0, dtype=i1) : i1[]
          %2 = aten::bitwise_or.Tensor(self=%0, other=%1) : i1[2]
          return %2
        """,
    )


def test_permuted_results_read_back_without_views() -> None:
    x = parameter(2, 3)
    expect(
        text((x.t().relu()).neg()),
        """
        trace
          %0 = param f32[2,3]
          %1 = ftm.view(base=%0, sizes=[3,2], strides=[1,3], offset=0) : f32[3,2]
          %2 = aten::relu(self=%1) : f32[3,2]
          %3 = aten::neg(self=%2) : f32[3,2]
          return %3
        """,
    )


def test_attributes() -> None:
    x = parameter(1, 1, 4, 4)
    y, _ = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    expect(
        text(y.to(torch.float64).sum((2, 3))),
        """
        trace
          %0 = param f32[1,1,4,4]
          %1, %2 = aten::max_pool2d_with_indices(self=%0, kernel_size=[2,2], stride=[], padding=[0,0], dilation=[1,1], ceil_mode=false) : f32[1,1,2,2], i64[1,1,2,2]
          %3 = aten::_to_copy(self=%1, dtype=f64, memory_format=none) : f64[1,1,2,2]
          %4 = aten::sum.dim_IntList(self=%3, dim=[2,3], keepdim=false, dtype=none) : f64[1,1]
          return %4
        """,
    )


def test_random_ops_take_seed_and_offset() -> None:
    x = parameter(4).bernoulli_(0.25)
    expect(
        text(x),
        """
        trace
          %0 = param f32[4]
          $0 = scalar i64
          $1 = scalar i64
          %1 = aten::bernoulli.p(self=%0, p=0.25, seed=$0, offset=$1) : f32[4]
          return %1
        """,
    )


def test_undefined_results() -> None:
    x, w = parameter(1, 2, 4, 4), parameter(3, 2, 3, 3)
    w.requires_grad_()
    torch.nn.functional.conv2d(x, w).sum().backward()
    assert " = aten::convolution_backward(" in text(w.grad)
    assert "output_mask=[false,true,false]) : none, f32[3,2,3,3], none" in text(w.grad)


def test_unused_calls_are_omitted() -> None:
    x = parameter(2)
    y = x + 1
    del y
    z = x * 2
    assert "aten::add" not in text()
    assert "aten::mul" in text()
    del z


def test_copies_cost_nothing() -> None:
    x = parameter(2, 2)
    y = x.clone()
    y.add_(1)
    z = y.detach().clone().contiguous()
    assert text(z).count(" = ") == 4  # parameter, two scalars, one add


@pytest.mark.parametrize(
    "compute", [lambda x: x.pow(2), lambda x: x.norm(p=3), lambda x: torch.linalg.vector_norm(x, 1)]
)
def test_scalars_that_shape_code_are_constants(compute: Callable[[Tensor], Tensor]) -> None:
    assert "$" not in text(compute(parameter(3)))


def test_indexing_is_recorded_unless_a_mask_decides_on_the_shape() -> None:
    _C._reset_counters()
    x, rows = parameter(4, 3), torch.tensor([2, 0]).to("ftm")
    y = x[rows]
    x[rows] = 1.0
    x[x > 2] = 0.0
    result = text(x, y)
    assert "aten::index.Tensor(self=%0, indices=[%1])" in result
    assert result.count("aten::index_put(") == 2
    assert not [
        name for name in _C._counters() if name.startswith("fallback") and _C._counters()[name]
    ]


def test_batch_norm_is_functional() -> None:
    layer = torch.nn.BatchNorm1d(3).to("ftm")
    result = text(layer(parameter(4, 3)), layer.running_mean, layer.running_var)
    assert result.count("aten::_native_batch_norm_legit_functional(") == 1


def test_foreach_is_one_call_for_each_tensor() -> None:
    tensors = [parameter(2), parameter(3)]
    torch._foreach_mul_(tensors, 0.5)
    assert (
        text(*tensors).count("aten::mul.Tensor(") + text(*tensors).count("aten::mul.Scalar(") == 2
    )


def test_arguments_of_each_kind() -> None:
    x, rows = parameter(2, 3), torch.tensor([2, 0]).to("ftm")
    assert 'approximate="tanh"' in text(torch.nn.functional.gelu(x, approximate="tanh"))
    assert "indices=[none,%1]" in text(x[:, rows])
    assert "other=[$0,$1]" in text(parameter(2, dtype=torch.complex64) * 2j)
