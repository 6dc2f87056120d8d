"""torch.func on ftm: grad, vjp, jvp, vmap, Jacobians and Hessians, functional modules,
ensembles."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

from autograd.both import same

x34 = torch.arange(12.0).reshape(3, 4) / 7 - 0.6


def f(x: Tensor) -> Tensor:
    return (x.sin() * x.square().sum(-1, keepdim=True)).tanh()


def test_grad() -> None:
    same(grad(lambda x: f(x).sum()), x34)
    same(grad(grad(lambda x: x.sin().prod())), torch.tensor(0.3))
    same(grad_and_value(lambda x, w: (f(x) @ w).sum(), argnums=(0, 1)), x34, torch.randn(4, 2))
    same(grad(lambda x: (f(x).sum(), x * 2), has_aux=True), x34)


def test_products() -> None:
    def run(x: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        out, back = vjp(f, x)
        return out, *back(v), *jvp(f, (x,), (v,)), linearize(f, x)[1](v)

    same(run, x34, torch.randn(3, 4))


def test_jacobians() -> None:
    x = torch.rand(4)
    same(lambda x: (jacrev(f)(x), jacfwd(f)(x), jacrev(f, chunk_size=2)(x)), x)
    same(lambda x: (hessian(lambda x: f(x).sum())(x), jacrev(jacfwd(f))(x)), x, rtol=1e-3)
    same(lambda x: torch.autograd.functional.jacobian(f, x, vectorize=True), x)
    same(lambda x: torch.autograd.functional.hvp(lambda x: f(x).sum(), x, torch.ones_like(x)), x)


def test_vmap() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 3)
    same(lambda a, b: vmap(torch.dot)(a, b.t()), a, b)
    same(lambda a, b: vmap(torch.mul, in_dims=(0, 1), out_dims=1)(a, b), a, b)
    same(
        lambda a, b: vmap(vmap(torch.mul, in_dims=(None, 0)), in_dims=(0, None))(a[:, 0], b[0]),
        a,
        b,
    )
    same(
        lambda a, b: vmap(lambda d, x: d["x"].sum() * x, in_dims=({"x": 0}, None))({"x": a}, b),
        a,
        b,
    )
    same(lambda a: vmap(lambda x: (x.cumsum(0), x.max(), x.sort().values))(a), a)
    same(lambda a: vmap(f, chunk_size=2)(a), a)
    same(lambda a: vmap(lambda x: F.layer_norm(x, (4,)))(a), a)
    same(lambda a, b: vmap(torch.mm, in_dims=(0, None))(a.reshape(3, 1, 4), b), a, b)
    same(
        lambda a: vmap(lambda x, i: x.index_select(0, i))(
            a, torch.tensor([[1], [0], [3]], device=a.device)
        ),
        a,
    )
    same(
        lambda x, w: vmap(lambda x: F.conv1d(x, w))(x),
        torch.randn(2, 2, 3, 6),
        torch.randn(4, 3, 3),
    )


def test_per_sample_gradients() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def run(state: dict[str, Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
        model = copy.deepcopy(net).to(x.device)

        def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(model, params, (x[None],)), y[None])

        return vmap(grad(loss), in_dims=(None, 0, 0))(state, x, y)

    state = {name: p.detach() for name, p in net.named_parameters()}
    same(run, state, torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0]))


def test_ensembles() -> None:
    nets = [nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)) for _ in range(3)]

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        models = [copy.deepcopy(net).to(x.device) for net in nets]
        params, buffers = stack_module_state(models)
        base = copy.deepcopy(models[0]).to("meta")

        def one(p: dict, b: dict, x: Tensor) -> Tensor:
            return functional_call(base, (p, b), (x,))

        out = vmap(one, in_dims=(0, 0, None))(params, buffers, x)
        torch.testing.assert_close(out, torch.stack([m(x) for m in models]))
        return out, vmap(one)(params, buffers, x.expand(3, *x.shape))

    same(run, torch.randn(5, 4))


def test_functionalize() -> None:
    def writes(x: Tensor) -> Tensor:
        y = x.clone()
        y[0].mul_(2)
        y.t().add_(1)
        return y

    same(functionalize(writes), x34)
    same(vmap(functionalize(lambda x: x.clone().add_(1))), x34)


@pytest.mark.parametrize(
    "draw",
    [
        torch.rand_like,
        torch.randn_like,
        lambda x: torch.randint_like(x, 9),
        lambda x: F.dropout(x, 0.5),
    ],
)
def test_randomness(draw: object) -> None:
    x = torch.full((4, 64), 0.5).to("ftm")
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(draw)(x)
    different = vmap(draw, randomness="different")(x).cpu()
    same_rows = vmap(draw, randomness="same")(x).cpu()
    assert len({tuple(row.tolist()) for row in different}) == 4
    assert len({tuple(row.tolist()) for row in same_rows}) == 1
