"""Ops of users, by torch.library: a Python implementation runs on ftm tensors, counted; one of
recorded ops needs none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import ftm_lazy
from autograd.both import same


@torch.library.custom_op("ftm_tests::sinc2", mutates_args=())
def sinc2(x: Tensor, scale: float) -> Tensor:
    return torch.from_numpy(np.sinc(x.detach().cpu().numpy() * scale) ** 2).to(x.device)


@sinc2.register_fake
def _(x: Tensor, scale: float) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("ftm_tests::sinc2_backward", mutates_args=())
def sinc2_backward(g: Tensor, x: Tensor, scale: float) -> Tensor:
    return g * torch.special.sinc(x * scale) * scale


@sinc2_backward.register_fake
def _(g: Tensor, x: Tensor, scale: float) -> Tensor:
    return torch.empty_like(x)


def _setup(ctx: object, inputs: tuple[Tensor, float], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


sinc2.register_autograd(
    lambda ctx, g: (sinc2_backward(g, ctx.saved_tensors[0], ctx.scale), None), setup_context=_setup
)


@torch.library.custom_op("ftm_tests::shift_", mutates_args={"x"})
def shift_(x: Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("ftm_tests::halves", mutates_args=(), device_types="cpu")
def halves(x: Tensor) -> list[Tensor]:
    return [part.clone() for part in x.chunk(2)]


LIBRARY = torch.library.Library("ftm_tests", "FRAGMENT")
LIBRARY.define("on_the_cpu(Tensor x, Tensor? y=None, int n=2) -> (Tensor, Tensor)")
LIBRARY.impl("on_the_cpu", lambda x, y=None, n=2: (x * n, x if y is None else y + 1), "CPU")
LIBRARY.define("composite(Tensor x, float a) -> Tensor")
LIBRARY.impl("composite", lambda x, a: x * a + torch.relu(x), "CompositeExplicitAutograd")
LIBRARY.define("implicit(Tensor x) -> Tensor")
LIBRARY.impl("implicit", lambda x: torch.exp(x) * x, "CompositeImplicitAutograd")
LIBRARY.define("fill_cpu_(Tensor(a!) x, float value) -> Tensor(a!)")
LIBRARY.impl("fill_cpu_", lambda x, value: x.fill_(value), "CPU")


def fallbacks() -> dict[str, int]:
    torch.accelerator.synchronize()
    return {
        n: c for n, c in ftm_lazy.metrics.counters().items() if n.startswith("fallback::") and c
    }


def test_custom_op_with_autograd() -> None:
    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.ops.ftm_tests.sinc2(x * 1, 0.7)
        return y, *torch.autograd.grad((y * 3).sum(), x)

    same(run, torch.randn(3, 4, requires_grad=True))


def test_implementations_for_other_devices() -> None:
    """What is written for the CPU runs there, counted by its name; composite ones are recorded like
    any program."""
    ops = torch.ops.ftm_tests
    x, y = torch.randn(4, 3), torch.randn(2)
    same(lambda x: ops.on_the_cpu(x), x)
    same(lambda x, y: ops.on_the_cpu(x.t(), y, n=3), x, y)
    same(lambda x: ops.halves(x + 1), x)
    assert fallbacks() == {"fallback::ftm_tests::on_the_cpu": 2, "fallback::ftm_tests::halves": 1}
    same(lambda x: (ops.composite(x, 2.0), ops.implicit(x)), x)
    same(lambda x: torch.autograd.grad(ops.implicit(x).sum(), x), x.clone().requires_grad_())
    assert len(fallbacks()) == 2


def test_ops_that_write() -> None:
    def write(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x * 1
        torch.ops.ftm_tests.shift_(x[0], 5.0)
        returned = torch.ops.ftm_tests.fill_cpu_(x[1], 7.0)
        return x, returned

    same(write, torch.randn(3, 2))


def test_strict_refuses_them() -> None:
    from ftm_lazy import _C

    _C._set_strict(True)
    try:
        with pytest.raises(NotImplementedError, match="ftm_tests::on_the_cpu is not compiled"):
            torch.ops.ftm_tests.on_the_cpu(torch.ones(2, device="ftm"))
    finally:
        _C._set_strict(False)


def test_transforms_of_custom_ops() -> None:
    torch.library.register_vmap(
        "ftm_tests::sinc2",
        lambda info, dims, x, scale: (torch.ops.ftm_tests.sinc2(x, scale), dims[0]),
    )
    same(
        lambda x: torch.vmap(lambda row: torch.ops.ftm_tests.sinc2(row, 0.7))(x), torch.randn(3, 4)
    )


def test_opcheck() -> None:
    """PyTorch's own test of a custom op, with tensors on the device."""
    x = torch.randn(3, device="ftm", requires_grad=True)
    # the test of autograd knows CPU, CUDA and XPU only
    checked = ("test_schema", "test_faketensor")
    assert set(torch.library.opcheck(sinc2, (x, 0.7), test_utils=checked).values()) == {"SUCCESS"}


def test_triton_like_registration_for_the_device() -> None:
    """A kernel registered for ftm itself is taken instead of a fallback."""
    LIBRARY.define("own(Tensor x) -> Tensor")
    LIBRARY.impl("own", lambda x: x + 1, "CPU")
    LIBRARY.impl("own", lambda x: x + 1 if x.device.type == "ftm" else x, "PrivateUse1")
    same(lambda x: torch.ops.ftm_tests.own(x), torch.randn(3))
    assert fallbacks() == {}
