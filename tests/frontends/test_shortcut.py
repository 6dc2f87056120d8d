"""``torch.compile(backend="ftm")`` without AOTAutograd's wrappers, where these have nothing to do:
as with them."""

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
    """Results without gradients among them, one that is not used, inputs that need none and one
    that gets none."""

    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        product = x @ y
        return (
            product.tanh(),
            product.argmax(1),
            (x * 2).sum(0),
            product.detach().exp(),
            x * z.detach(),
        )

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
    w, z = (
        torch.randn(3, 4, device=device, requires_grad=True),
        torch.randn(3, 4, dtype=torch.complex64),
    )
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


@pytest.mark.parametrize("kind", ("a view", "two of one", "written, with a gradient"))
def test_what_the_wrappers_are_for(kind: str, device: str) -> None:
    """Graphs of these kinds stay with them, call after call."""

    def function(x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        if "written" in kind:
            state.mul_(2)
        return {"a view": (y, x.t()), "two of one": (y, y.t())}.get(kind, (y,))

    w, state = (
        torch.randn(3, 3, device=device, requires_grad=True),
        torch.zeros(3, 3, device=device),
    )
    call = torch.compile(function, backend=TorchCompileBackend())
    for _ in range(3):
        given = state if kind != "written, with a gradient" else w * 1
        results = call(w, given)
        assert not is_short(results[0])
        w.grad = None
        (results[0].sum() + given.sum()).backward()
        torch.testing.assert_close(w.grad, w.exp() + 2 * (given is not state))
        assert kind != "a view" or results[1].data_ptr() == w.data_ptr()


def test_written_inputs(device: str) -> None:
    """State that the graph reads and writes; a transposed one."""

    def function(x: torch.Tensor, state: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        state.mul_(2).add_(1)
        y = x.t() * state
        counts.add_(y.detach() > 0)
        return y

    given = (
        torch.randn(3, 4, requires_grad=True),
        torch.ones(3, 4).t(),
        torch.zeros(4, 3, dtype=torch.int64),
    )
    own = [t.detach().to(device, copy=True).requires_grad_(t.requires_grad) for t in given]
    assert own[1].stride() == (1, 4)
    call = torch.compile(function, backend=TorchCompileBackend(), fullgraph=True)
    for number in range(3):
        versions = [t._version for t in own]
        found, expected = call(*own), function(*given)
        assert is_short(found) == (number > 0)
        assert [t._version > version for t, version in zip(own, versions, strict=True)] == [
            False,
            True,
            True,
        ]
        for result, inputs in ((found, own), (expected, given)):
            inputs[0].grad = None
            result.sum().backward()
        for a, b in zip((found, *own, own[0].grad), (expected, *given, given[0].grad), strict=True):
            torch.testing.assert_close(a.cpu(), b)


def test_written_inputs_that_lie_otherwise(device: str) -> None:
    """A conjugate's memory gets the conjugate of what the graph gives."""

    def function(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        state.mul_(2).add_(1j)
        return x * state.abs()

    x = torch.randn(3, requires_grad=True, device=device)
    call = torch.compile(function, backend=TorchCompileBackend(), fullgraph=True)
    memory = torch.ones(3, dtype=torch.complex64, device=device)
    for number in range(4):
        result = call(x, memory if number < 2 else memory.conj())
        assert is_short(result) == (number % 2 > 0)  # Dynamo makes a graph of each kind
        result.sum().backward()
    torch.testing.assert_close(memory.cpu(), torch.full((3,), 16 + 9j))


def test_batch_norm(device: str) -> None:
    """In training, then with its statistics; eager PyTorch and the graph take turns on one
    module."""
    model, other = (nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()) for _ in range(2))
    other.load_state_dict(model.state_dict())
    model.to(device)
    call = torch.compile(model, backend=TorchCompileBackend(), fullgraph=True)
    for number in range(4):
        x = torch.randn(16, 4)
        found, expected = (model if number == 2 else call)(x.to(device)), other(x)
        assert number == 2 or is_short(found) == (number > 0)
        for owner, result in ((model, found), (other, expected)):
            owner.zero_grad()
            result.square().sum().backward()
        for (name, a), b in zip(
            (*model.named_parameters(), *model.named_buffers()),
            (*other.parameters(), *other.buffers()),
            strict=True,
        ):
            torch.testing.assert_close(
                a.cpu(), b, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
            )
            if a.requires_grad:
                torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)
    model.eval(), other.eval()
    for _ in range(2):
        torch.testing.assert_close(call(x.to(device)).cpu(), other(x), rtol=1e-4, atol=1e-5)


def test_an_optimizers_step(device: str) -> None:
    """Parameters have gradients and are written: a graph without autograd, on ftm the end of a
    training step."""
    w, other = (torch.ones(4, device=where, requires_grad=True) for where in (device, "cpu"))
    optimizers = [torch.optim.AdamW([p], lr=0.1) for p in (w, other)]
    step = torch.compile(optimizers[0].step, backend=TorchCompileBackend())
    for _ in range(4):
        w.grad, other.grad = torch.ones(4, device=device), torch.ones(4)
        step()
        optimizers[1].step()
        torch.testing.assert_close(w.detach().cpu(), other.detach())


def test_without_gradients(device: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to(device)
    call, x = torch.compile(model, backend=TorchCompileBackend()), torch.randn(2, 4, device=device)
    for _ in range(3):
        with torch.no_grad():
            found = call(x)
        torch.testing.assert_close(found, model(x).detach())
        assert not found.requires_grad
