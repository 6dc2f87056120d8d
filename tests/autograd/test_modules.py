"""Utilities for models: parametrizations, averaged weights, clipping, parameter vectors, copies,
closures."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    parameters_to_vector,
    parametrizations,
    parametrize,
    vector_to_parameters,
)
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

from autograd.both import same

State = dict[str, Tensor]


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))


def trained(run: Callable[[nn.Sequential, Tensor, Tensor], Any]) -> None:
    """The same of a copy of one network on both devices."""
    state = network().state_dict()

    def on_device(x: Tensor, y: Tensor, state: State) -> Any:
        model = network().to(x.device)
        model.load_state_dict(state)
        return run(model, x, y)

    same(
        on_device, torch.randn(12, 6), torch.randint(0, 3, (12,)), dict(state), rtol=1e-3, atol=1e-4
    )


def step(model: nn.Module, x: Tensor, y: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x: Tensor) -> Tensor:
        return x.triu()


def test_parametrization() -> None:
    def run(w: Tensor, x: Tensor) -> list[Tensor]:
        layer = nn.Linear(4, 4, bias=False).to(x.device)
        with torch.no_grad():
            layer.weight.copy_(w)
        parametrize.register_parametrization(layer, "weight", Symmetric())
        parametrizations.weight_norm(other := nn.Linear(4, 4, bias=False).to(x.device))
        with torch.no_grad():
            other.weight = w
        (layer(x) * other(x)).sum().backward()
        with parametrize.cached():
            assert layer.weight is layer.weight
        grads = [p.grad for m in (layer, other) for p in m.parameters()]
        parametrize.remove_parametrizations(layer, "weight")
        return [layer.weight, *grads]

    same(run, torch.randn(4, 4), torch.randn(2, 4))


def test_spectral_norm() -> None:
    """Its power iteration starts from random vectors, so it is checked against what it means."""
    layer = parametrizations.spectral_norm(nn.Linear(6, 5), n_power_iterations=20).to("ftm")
    for _ in range(3):
        layer(torch.randn(2, 6, device="ftm"))
    assert torch.linalg.matrix_norm(layer.weight.detach().cpu(), 2).item() == pytest.approx(
        1, abs=1e-3
    )
    layer(torch.randn(2, 6, device="ftm")).sum().backward()
    assert layer.parametrizations.weight.original.grad.isfinite().all()


def test_orthogonal() -> None:
    layer = parametrizations.orthogonal(
        nn.Linear(5, 5, bias=False).to("ftm"), orthogonal_map="matrix_exp"
    )
    w = layer.weight.detach().cpu()
    torch.testing.assert_close(w @ w.T, torch.eye(5), rtol=1e-4, atol=1e-5)


def test_averages() -> None:
    def run(model: nn.Sequential, x: Tensor, y: Tensor) -> list[Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        swa = AveragedModel(model)
        schedule = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
        for _ in range(4):
            step(model, x, y, optimizer)
            ema.update_parameters(model)
            swa.update_parameters(model)
            schedule.step()
        update_bn([x], ema)
        return [*ema.module.state_dict().values(), *swa.module.state_dict().values(), ema(x)]

    trained(run)


def test_clipping_and_vectors() -> None:
    def run(model: nn.Sequential, x: Tensor, y: Tensor) -> list[Tensor]:
        F.cross_entropy(model(x) * 50, y).backward()
        norm = clip_grad_norm_(model.parameters(), 0.5)
        largest = clip_grad_norm_(model.parameters(), 0.1, norm_type=float("inf"))
        clip_grad_value_(model.parameters(), 0.05)
        grads = [p.grad.clone() for p in model.parameters()]
        vector = parameters_to_vector(model.parameters())
        vector_to_parameters(vector * 2, model.parameters())
        with pytest.raises(RuntimeError, match="non-finite"):
            model[0].weight.grad.fill_(float("nan"))
            clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        return [norm, largest, *grads, vector, *(p.detach().clone() for p in model.parameters())]

    trained(run)


def test_closures() -> None:
    def run(model: nn.Sequential, x: Tensor, y: Tensor) -> list[Tensor]:
        optimizer = torch.optim.LBFGS(
            model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        before = closure().detach().clone()
        optimizer.step(closure)
        assert closure() < before
        return list(model.parameters())

    trained(run)


def test_copies() -> None:
    """A deep copy is independent; saving and loading restores everything."""

    def run(model: nn.Sequential, x: Tensor, y: Tensor) -> list[Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step(model, x, y, optimizer)
        twin, tensors = copy.deepcopy(model), copy.deepcopy([x, x[1:], torch.nn.Parameter(x)])
        file = io.BytesIO()
        torch.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "rng": torch.random.get_rng_state(),
            },
            file,
        )
        step(model, x, y, optimizer)
        file.seek(0)
        saved = torch.load(file, map_location=x.device)
        other, again = network().to(x.device), None
        other.load_state_dict(saved["model"])
        again = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
        again.load_state_dict(saved["optimizer"])
        step(other, x, y, again)
        torch.testing.assert_close(list(other.parameters()), list(model.parameters()))
        return [*twin.parameters(), *other.parameters(), *tensors]

    trained(run)


def test_pruning_and_fusing() -> None:
    from torch.nn.utils import prune
    from torch.nn.utils.fusion import fuse_linear_bn_eval

    def run(model: nn.Sequential, x: Tensor, y: Tensor) -> list[Tensor]:
        step(model, x, y, torch.optim.SGD(model.parameters(), lr=0.1))
        prune.l1_unstructured(model[3], "weight", amount=5)
        model.eval()
        return [model(x), fuse_linear_bn_eval(model[0], model[1])(x), model[3].weight_mask]

    trained(run)


def test_lazy_and_deferred_modules() -> None:
    lazy = nn.LazyLinear(3).to("ftm")
    assert lazy(torch.randn(2, 5, device="ftm")).shape == (2, 3)
    with torch.device("meta"):
        model = network()
    model = model.to_empty(device="ftm")
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    assert model(torch.randn(4, 6, device="ftm")).isfinite().all()
    with torch.device("ftm"):
        assert network()[0].weight.device.type == torch.zeros(2).device.type == "ftm"


def test_initializers() -> None:
    w = torch.empty(64, 32, device="ftm")
    for init, std in (
        (nn.init.xavier_uniform_, (2 / 96) ** 0.5),
        (nn.init.kaiming_normal_, (2 / 32) ** 0.5),
        (nn.init.orthogonal_, 1 / 64**0.5),
    ):
        assert init(w).std().item() == pytest.approx(std, rel=0.1)
    assert nn.init.trunc_normal_(w, std=1.0, a=-1, b=1).abs().max() <= 1
    assert (nn.init.sparse_(w, 0.5) == 0).sum(0).tolist() == [32] * 32
    torch.testing.assert_close(nn.init.dirac_(torch.empty(3, 3, 3, device="ftm")).sum().item(), 3.0)
