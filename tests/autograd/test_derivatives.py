"""First and second derivatives in both modes, hooks, and anomaly detection."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

from autograd.both import same

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "mlp": lambda x, w: torch.tanh(x @ w).pow(2).sum(),
    "softmax": lambda x, w: (F.log_softmax(x @ w, -1) * x.sum()).mean(),
    "normalize": lambda x, w: F.layer_norm(x, (x.shape[-1],)).mul(x).sum() + w.norm(),
    "views": lambda x, w: (x[:, 1:].t() @ x[:, :-1]).diagonal().prod() + w[::2].sum(),
    "in place": lambda x, w: (
        (x * 1).mul_(2).add_(w[: x.shape[0], : x.shape[1]]).sigmoid_().square().sum()
    ),
    "where": lambda x, w: torch.where(x > 0, x.exp(), x * w.sum()).cumsum(1).logsumexp((0, 1)),
    "index": lambda x, w: x[torch.tensor([0, 2, 0])].pow(3).sum() * w.std(),
    "division": lambda x, w: (x / (1 + w[:3].abs().sum())).atan2(x.square() + 1).sum(),
}
CASES = pytest.mark.parametrize("name", FUNCTIONS)


def operands(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return (
        torch.randn(3, 4, dtype=dtype, requires_grad=True),
        torch.randn(4, 4, dtype=dtype, requires_grad=True),
    )


@CASES
def test_first_and_second(name: str) -> None:
    f = FUNCTIONS[name]

    def both(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(f(x, w), (x, w), create_graph=True)
        total = sum((g.square().sum() for g in first), torch.zeros((), device=x.device))
        return (
            *first,
            *torch.autograd.grad(total, (x, w), allow_unused=True, materialize_grads=True),
        )

    same(both, *operands(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["mlp", "softmax", "views"])
def test_numeric(name: str) -> None:
    x, w = (t.detach().to("ftm").requires_grad_() for t in operands(torch.float64))
    assert torch.autograd.gradcheck(FUNCTIONS[name], (x, w), fast_mode=True)
    assert torch.autograd.gradgradcheck(FUNCTIONS[name], (x, w), fast_mode=True)


def test_numeric_slow_and_forward() -> None:
    x = torch.randn(2, 3, dtype=torch.float64).to("ftm").requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: x.sin() * x.sum(), (x,), check_forward_ad=True, check_batched_grad=True
    )


@CASES
def test_forward_mode(name: str) -> None:
    f = FUNCTIONS[name]

    def derivative(x: Tensor, w: Tensor, dx: Tensor, dw: Tensor) -> tuple[Tensor, Tensor]:
        with forward_ad.dual_level():
            out = f(forward_ad.make_dual(x, dx), forward_ad.make_dual(w, dw))
            value, tangent = forward_ad.unpack_dual(out)
        return value, tangent

    x, w = operands()
    same(derivative, x.detach(), w.detach(), torch.randn(3, 4), torch.randn(4, 4), rtol=1e-3)


def test_forward_over_backward() -> None:
    def product(x: Tensor, v: Tensor) -> Tensor:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, v)
            dual.requires_grad_()
            (g,) = torch.autograd.grad(dual.sin().prod(), dual, create_graph=True)
            return forward_ad.unpack_dual(g).tangent

    same(product, torch.rand(5) + 0.5, torch.randn(5))


def test_hooks_of_tensors() -> None:
    def run(x: Tensor) -> tuple[Tensor, ...]:
        seen: list[Tensor] = []
        y = x * 3
        y.retain_grad()
        y.register_hook(lambda g: g * 2)
        x.register_hook(lambda g: seen.append(g) or g.clamp(max=8))
        handle = x.register_hook(lambda g: g * 100)
        handle.remove()
        x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        (y * torch.arange(3.0, device=x.device)).sum().backward()
        return (x.grad, y.grad, *seen)

    same(run, torch.randn(3, requires_grad=True))


def test_hooks_of_modules() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def run(x: Tensor, state: dict[str, Tensor]) -> list[Tensor]:
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).to(x.device)
        model.load_state_dict(state)
        seen: list[Tensor] = []
        model[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        model[1].register_forward_hook(lambda m, args, out: seen.append(out) or out + 1)
        model[2].register_full_backward_pre_hook(lambda m, g: (g[0] * 3,))
        model[0].register_full_backward_hook(lambda m, gi, go: seen.append(go[0]))
        model(x).square().sum().backward()
        return [*seen, *(p.grad for p in model.parameters())]

    same(run, torch.randn(5, 3), dict(net.state_dict()))


def test_accumulation_and_parts() -> None:
    """Gradients add up; a graph can be kept, cut and entered in the middle."""

    def run(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        y.sum().backward(retain_graph=True)
        first = x.grad.clone()
        y.backward(gradient=torch.ones_like(y) * 2, inputs=[x])
        torch.autograd.backward([(x * 2).sum(), (x.detach() * x).sum()])
        (none,) = torch.autograd.grad(
            y.detach().requires_grad_().sum(), x, allow_unused=True, materialize_grads=True
        )
        return first, x.grad, none

    same(run, torch.randn(4, requires_grad=True))


def test_batched_grads() -> None:
    def rows(x: Tensor) -> Tensor:
        y = x.square().cumsum(0)
        (jacobian,) = torch.autograd.grad(
            y, x, torch.eye(4, device=x.device), is_grads_batched=True
        )
        return jacobian

    same(rows, torch.randn(4, requires_grad=True))


def test_modes() -> None:
    x = torch.randn(3, device="ftm", requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    with torch.inference_mode():
        y = x * 2
        assert y.is_inference()
        y.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors"):
        (x * y).sum().backward()
    torch.testing.assert_close(y.cpu(), x.detach().cpu() * 2 + 1)
    assert (y.clone() * x).sum().requires_grad


def test_in_place_errors() -> None:
    """What autograd forbids is forbidden here too."""
    x = torch.randn(3, device="ftm", requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_anomaly() -> None:
    x = torch.zeros(2, device="ftm", requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            torch.autograd.detect_anomaly(check_nan=True),
            pytest.raises(RuntimeError, match="returned nan values"),
        ):
            (x.sqrt() * 0).sum().backward()
