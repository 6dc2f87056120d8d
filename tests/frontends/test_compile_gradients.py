"""``torch.compile(backend="ftm")`` and autograd: saved tensors, sparse and repeated gradients."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

from ftm_lazy import FTMCompiler, TorchCompileBackend
from ftm_lazy.frontends.capture import CaptureError, capture

DEVICES = ("cpu", "ftm")


def _weight(device: str) -> torch.Tensor:
    """It is kept as a view of itself."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).to(device)
    loss = torch.compile(model, backend=TorchCompileBackend())(
        torch.randn(3, 4, device=device)
    ).sum()
    with torch.no_grad():
        model[2].weight.add_(1)
    return loss


def _input(device: str) -> torch.Tensor:
    w, x = torch.randn(4, device=device, requires_grad=True), torch.randn(4, device=device)
    loss = torch.compile(lambda x, w: (x * w).sum(), backend=TorchCompileBackend())(x, w)
    x.add_(1)
    return loss


def _result(device: str) -> torch.Tensor:
    w = torch.randn(4, device=device, requires_grad=True)
    result = torch.compile(lambda w: (w * 2).exp(), backend=TorchCompileBackend())(w)
    loss = result.sum()
    result.detach().add_(1)
    return loss


def _view_of_a_result(device: str) -> torch.Tensor:
    def function(w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = (w * 2).exp()
        return y, y.t() @ v

    w, v = (torch.randn(4, 4, device=device, requires_grad=True) for _ in range(2))
    result, product = torch.compile(function, backend=TorchCompileBackend())(w, v)
    loss = product.sum()
    result.detach().add_(1)
    return loss


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("written", (_weight, _input, _result, _view_of_a_result))
def test_what_gradients_need_was_written_over(
    written: Callable[[str], torch.Tensor], device: str
) -> None:
    """As in eager an error, and no gradient of other values."""
    loss = written(device)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_twice(device: str) -> None:
    eager = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    model, x = copy.deepcopy(eager).to(device), torch.randn(3, 4)
    compiled = torch.compile(model, backend=TorchCompileBackend())
    for kept in ((True, False), (False,), (True, True, False)):
        for owner, call in ((eager, eager), (model, compiled)):
            owner.zero_grad()
            loss = call(x.to(next(owner.parameters()).device)).sum()
            for keep in kept:
                loss.backward(retain_graph=keep)
        for a, b in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(a.grad.cpu(), b.grad)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


@pytest.mark.filterwarnings("ignore:.*is not compiled for ftm")
@pytest.mark.parametrize("device", DEVICES)
def test_a_sparse_gradient(device: str) -> None:
    """It is made between two programs, which take and give elements in memory only."""
    eager, rows = nn.Embedding(10, 4, sparse=True), torch.tensor([1, 3, 1])
    model = copy.deepcopy(eager).to(device)
    torch.compile(model, backend=TorchCompileBackend())(rows.to(device)).sum().backward()
    eager(rows).sum().backward()
    assert model.weight.grad.layout == torch.sparse_coo
    torch.testing.assert_close(model.weight.grad.cpu().coalesce(), eager.weight.grad.coalesce())


def test_other_layouts_are_named() -> None:
    compiler, x = FTMCompiler(), torch.eye(3)
    with pytest.raises(CaptureError, match="no sparse_coo one"):
        compiler.run(lambda x: x.to_dense() * 2, x.to_sparse())
    with pytest.raises(CaptureError, match="no sparse one"):
        compiler.run(
            lambda i, v: torch.sparse_coo_tensor(i, v, (3,), check_invariants=False),
            torch.zeros(1, 2).long(),
            x[0, :2],
        )


def test_gradients_within_a_capture() -> None:
    """They are part of it, on whatever thread PyTorch computes them: an op of theirs that is not
    compiled is named."""

    class Factors(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(ctx.saved_tensors[0]) * gradient

    def gradient(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            loss = Factors.apply(x.requires_grad_()).sum()
        return torch.autograd.grad(loss, x)[0]

    with pytest.raises(CaptureError, match=r"aten::_linalg_eigh.* is not compiled"):
        FTMCompiler().run(gradient, torch.eye(3))


def test_a_capture_leaves_other_threads_their_random_numbers() -> None:
    """And takes none of theirs for its own."""

    def numbers() -> torch.Tensor:
        return torch.stack([torch.rand(2, device="ftm") for _ in range(400)]).cpu()

    torch.manual_seed(0)
    expected = numbers()
    stop, captured = threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            program = capture(lambda x: [torch.rand_like(x), torch.rand_like(x)], [torch.ones(4)])
            captured.append([number for *_, number in program.draws] + [program.draws_made])

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        while not captured:
            pass
        torch.manual_seed(0)
        found = numbers()
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert torch.equal(found, expected)
    assert all(numbers == [0, 1, 2] for numbers in captured)


@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_a_conjugate(device: str) -> None:
    """The conjugation is a bit of the input where the graph is made, and in memory where it
    runs."""
    z = torch.randn(3, dtype=torch.complex64)
    call = torch.compile(lambda z: z.real * z.imag, backend=TorchCompileBackend(), fullgraph=True)
    for given in (z.conj(), z):
        torch.testing.assert_close(call(given.to(device)).cpu(), given.real * given.imag)


def test_a_program_cannot_be_launched_on_what_a_capture_computes() -> None:
    """With an input on the CPU, the launch needs values."""
    program = capture(lambda x, y: [x * 2 + y], [torch.zeros(3), torch.zeros(3)])
    with pytest.raises(CaptureError, match="while its program was being captured"):
        capture(lambda x: program.launch([x + 1, torch.ones(3)]), [torch.zeros(3)])
    kept: list[torch.Tensor] = []
    capture(lambda x: [kept.append(x + 1) or kept[0]], [torch.zeros(3)])
    with pytest.raises(NotImplementedError, match="while its program was being captured"):
        program.launch([kept[0], torch.ones(3)])
    kept[0].zero_().add_(3)
    assert program.launch([kept[0], torch.ones(3)])[0].tolist() == [7.0] * 3


def test_a_captured_program_writes_only_to_its_inputs() -> None:
    outside = torch.zeros(3, device="ftm")
    for write in (outside.add_, outside.copy_, lambda x: outside[:2].mul_(x[:2])):
        with pytest.raises(CaptureError, match="none of its inputs, parameters or buffers"):
            capture(lambda x, write=write: [write(x)], [torch.zeros(3)])
    assert outside.tolist() == [0.0] * 3
    own = capture(lambda x: [torch.zeros(3).to("ftm").add_(x)], [torch.zeros(3)])
    assert own.launch([torch.ones(3)])[0].tolist() == [1.0] * 3

    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sum = torch.zeros(3, device="ftm")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.sum.add_(x)

    model = Cache()
    with pytest.raises(CaptureError, match="none of its inputs, parameters or buffers"):
        FTMCompiler().jit_run(model, torch.ones(3, device="ftm"))
    assert model(torch.ones(3, device="ftm")).tolist() == [1.0] * 3
