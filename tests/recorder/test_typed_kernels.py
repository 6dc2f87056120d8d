"""Unboxed kernels (csrc/dispatch/unboxed_kernels.h): which ops have one, and that they only borrow
their arguments."""

from __future__ import annotations

import sys

import pytest
import torch

TYPED = (
    "add.Tensor", "add_.Tensor", "add.out", "mul.Tensor", "sub.Tensor", "div.Tensor", "mm", "bmm", "addmm", "relu", "gelu",
    "sum.dim_IntList", "_softmax", "_log_softmax_backward_data", "native_layer_norm", "native_layer_norm_backward", "where.self",
    "embedding", "nll_loss_forward", "nll_loss_backward", "addcdiv_", "lerp_.Scalar", "max_pool2d_with_indices", "linalg_vector_norm",
    "native_dropout", "normal_", "gather", "topk", "threshold_backward",
)  # fmt: skip
"""What training steps are made of."""


def kernel_of(op: str) -> str:
    """The line that PyTorch's dispatcher has of the device's kernel."""
    return next(
        line
        for line in torch._C._dispatch_dump(f"aten::{op}").splitlines()
        if line.startswith("PrivateUse1:")
    )


@pytest.mark.parametrize("op", TYPED)
def test_common_ops_have_one(op: str) -> None:
    assert "[ boxed unboxed ]" in kernel_of(op)


def test_lists_of_tensors_go_over_the_stack() -> None:
    assert "[ boxed ]" in kernel_of("cat")


def test_arguments_are_lent() -> None:
    """Neither a call nor an error takes a reference of the caller's."""
    x, y, wrong = (torch.ones(*sizes, device="ftm") for sizes in ((2, 3), (2, 3), (4, 5)))
    before = [sys.getrefcount(tensor) for tensor in (x, y, wrong)]
    for _ in range(3):
        torch.add(x, y, out=x)
        x.add_(y)
        with pytest.raises(RuntimeError, match="must match the size"):
            x + wrong
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(2, 3)
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            x[:1].add_(y)
    assert [sys.getrefcount(tensor) for tensor in (x, y, wrong)] == before
    assert x.cpu().tolist() == [[7.0] * 3] * 2
    assert wrong.sum().item() == 20.0


def test_arguments_that_have_to_be_replaced() -> None:
    """A number's tensor of the CPU, a conjugated view, and a tensor that is both of these."""
    z = torch.tensor([1 + 2j, 3 - 1j])
    on_ftm = z.to("ftm")
    assert torch.equal((on_ftm.conj() + z[0]).cpu(), z.conj() + z[0])
    assert torch.equal(
        (torch.tensor(2.0) * torch.ones(3, device="ftm")).cpu(), torch.full((3,), 2.0)
    )
    real = torch.arange(3.0, device="ftm")
    assert torch.equal(real.add_(torch.tensor(2)).cpu(), torch.arange(3.0) + 2)


def test_results_are_those_of_eager() -> None:
    """Several results, one that is undefined, optional arguments, a returned argument."""
    x = torch.randn(4, 6)
    weight, gradient = torch.randn(6), torch.randn(4, 6)
    expected = torch.native_layer_norm(x, [6], weight, None, 1e-5)
    got = torch.native_layer_norm(x.to("ftm"), [6], weight.to("ftm"), None, 1e-5)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)
    backward = torch.ops.aten.native_layer_norm_backward
    *_, mean, rstd = expected
    arguments = (gradient, x, [6], mean, rstd, weight, None, [True, False, False])
    moved = [
        argument.to("ftm") if isinstance(argument, torch.Tensor) else argument
        for argument in arguments
    ]
    of_input, of_weight, of_bias = backward(*moved)
    torch.testing.assert_close(of_input.cpu(), backward(*arguments)[0])
    assert of_weight is None and of_bias is None
    out = torch.empty(0, device="ftm")
    assert torch.mm(x.to("ftm"), x.t().to("ftm"), out=out) is out
    torch.testing.assert_close(out.cpu(), x @ x.t())


def test_calls_over_the_stack_reach_it() -> None:
    """TorchScript calls kernels over its stack."""

    @torch.jit.script
    def steps(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y, alpha=2).relu_().mul(0.5)

    x, y = torch.randn(3, 4), torch.randn(4)
    torch.testing.assert_close(steps(x.to("ftm"), y.to("ftm")).cpu(), (x + 2 * y).relu() * 0.5)
