"""``torch.compile(backend="ftm")`` without AOTAutograd's wrappers, where these have nothing to do: as with them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

from ftm_lazy import TorchCompileBackend

DEVICES = ("cpu", "ftm")

pytestmark = pytest.mark.parametrize("device", DEVICES)


def is_short(result: torch.Tensor) -> bool:
    """Whether a graph's result comes from the function in C++."""
    return "AutogradCall" in result.grad_fn.name()


def compiled(function: Callable[..., object], *examples: torch.Tensor) -> Callable[..., object]:
    """It has run, forward and backward, so that the next call is a short one."""
    call = torch.compile(function, backend=TorchCompileBackend(), fullgraph=True)
    results = call(*(x.detach().clone().requires_grad_(x.requires_grad) for x in examples))
    first = results[0] if isinstance(results, tuple) else results
    assert not is_short(first)
    first.sum().backward()
    return call


def test_results_and_gradients(device: str) -> None:
    """Results without gradients among them, one that is not used, inputs that need none and one that gets none."""
    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        product = x @ y
        return product.tanh(), product.argmax(1), (x * 2).sum(0), product.detach().exp(), x * z.detach()

    x, y, z = torch.randn(3, 4), torch.randn(4, 4), torch.randn(3, 4)
    given = [t.to(device, copy=True).requires_grad_(t is not y) for t in (x, y, z)]
    call = compiled(function, *given)
    for _ in range(2):
        for t in (x, z):
            t.requires_grad_().grad = None
        for t in given:
            t.grad = None
        found, expected = call(*given), function(x, y, z)
        assert is_short(found[0])
        for a, b in zip(found, expected, strict=True):
            assert a.requires_grad == b.requires_grad
            torch.testing.assert_close(a.cpu(), b)
        for results in (found, expected):
            (results[0].sum() + results[4].square().sum()).backward()
        torch.testing.assert_close(given[0].grad.cpu(), x.grad)
        assert given[1].grad is None and given[2].grad is None


def test_what_was_kept_was_written_over(device: str) -> None:
    w = torch.randn(4, device=device, requires_grad=True)
    result = compiled(lambda w: (w * 2).exp(), w)(w)
    loss = result.sum()
    result.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradients_twice(device: str) -> None:
    w = torch.randn(4, device=device, requires_grad=True)
    loss = compiled(torch.exp, w)(w).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    torch.testing.assert_close(w.grad, 2 * w.exp())
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_second_derivatives_are_refused(device: str) -> None:
    """Where they are asked for, in AOTAutograd's words; first ones are there all the same."""
    w = torch.randn(4, device=device, requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(torch.exp, w)(w).sum(), w, create_graph=True)
    torch.testing.assert_close(gradient.detach(), w.exp().detach())
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


def test_compiled_autograd_takes_it_up(device: str) -> None:
    w = torch.randn(4, device=device, requires_grad=True)
    call = compiled(torch.exp, w)
    for _ in range(2):
        w.grad = None
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=TorchCompileBackend())):
            call(w).sum().backward()
        torch.testing.assert_close(w.grad, w.exp())


def test_inputs_that_lie_otherwise(device: str) -> None:
    """A gradient that is expanded, a tensor whose conjugation is a bit of it."""
    w, z = torch.randn(3, 4, device=device, requires_grad=True), torch.randn(3, 4, dtype=torch.complex64)
    call = compiled(lambda w: w.t().exp(), w)
    call(w).sum().backward()  # a gradient of one element, expanded
    call(w).backward(torch.randn(3, 4, device=device).t())
    w.grad = None
    gradient = torch.randn(3, 4, device=device)
    call(w).backward(gradient.t())
    torch.testing.assert_close(w.grad, gradient * w.exp())
    product = compiled(lambda w, z: w * z.real, w, z.to(device))(w, z.to(device).conj())
    torch.testing.assert_close(product.cpu(), w.cpu() * z.real)


def test_threads(device: str) -> None:
    eager = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    model = copy.deepcopy(eager).to(device)
    call, wrong = compiled(model, torch.randn(4, 8, device=device)), []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(10):
            x = torch.randn(4, 8, generator=generator)
            gradients = []
            for owner in (call, eager):
                given = x.to(device if owner is call else "cpu", copy=True).requires_grad_()
                gradients.append(torch.autograd.grad(owner(given).square().sum(), given)[0].cpu())
            wrong.extend([] if torch.allclose(*gradients, rtol=1e-4, atol=1e-5) else gradients)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("kind", ("a view", "two of one", "written"))
def test_what_the_wrappers_are_for(kind: str, device: str) -> None:
    """Graphs of these kinds stay with them, call after call."""
    def function(x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        if kind == "written":
            state.add_(y.detach())
        return {"a view": (y, x.t()), "two of one": (y, y.t()), "written": (y,)}[kind]

    w, state = torch.randn(3, 3, device=device, requires_grad=True), torch.zeros(3, 3, device=device)
    call = torch.compile(function, backend=TorchCompileBackend())
    for number in range(3):
        results = call(w, state)
        assert not is_short(results[0])
        w.grad = None
        results[0].sum().backward()
        torch.testing.assert_close(w.grad, w.exp())
        assert kind != "a view" or results[1].data_ptr() == w.data_ptr()
        assert kind != "written" or torch.allclose(state, (number + 1) * w.detach().exp())


def test_without_gradients(device: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to(device)
    call, x = torch.compile(model, backend=TorchCompileBackend()), torch.randn(2, 4, device=device)
    for _ in range(3):
        with torch.no_grad():
            found = call(x)
        torch.testing.assert_close(found, model(x).detach())
        assert not found.requires_grad
