"""``torch.compile(backend="ftm")`` on ftm: a graph's operations join the pending trace."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ftm_lazy import _C, TorchCompileBackend, metrics
from ftm_lazy.compile.trace_importer import trace_of


def test_a_training_step_is_the_lazy_devices_program() -> None:
    """One program for graph, loss and optimizer; with the same random numbers and statistics, bit
    by bit."""
    torch.manual_seed(0)
    parts = (nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    lazy = nn.Sequential(*parts).to("ftm")
    model = copy.deepcopy(lazy)
    compiled = torch.compile(model, backend=TorchCompileBackend(), fullgraph=True)
    found, expected = [], []
    fallbacks = sum(n for name, n in metrics.counters().items() if name.startswith("fallback::"))
    for owner, call, losses in ((lazy, lazy, expected), (model, compiled, found)):
        optimizer = torch.optim.AdamW(owner.parameters(), lr=0.1)
        torch.manual_seed(5)
        for step in range(5):
            x, y = torch.randn(6, 4).to("ftm"), torch.randint(3, (6,)).to("ftm")
            before = _C._launches()
            optimizer.zero_grad()
            loss = F.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            assert _C._launches() - before == 1 or (call is compiled and step == 0)
    assert found == expected
    assert fallbacks == sum(
        n for name, n in metrics.counters().items() if name.startswith("fallback::")
    )
    for (name, a), (_, b) in zip(
        model.state_dict().items(), lazy.state_dict().items(), strict=True
    ):
        assert torch.equal(a, b), name


def test_a_compiled_optimizers_step_ends_the_step() -> None:
    """Though nothing is read; a forward graph, whatever statistics it writes, ends none."""
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).to("ftm")
    call = torch.compile(model, backend=TorchCompileBackend())
    optimizer = torch.optim.Adam(
        model.parameters(), lr=torch.tensor(0.01, device="ftm"), capturable=True
    )
    step, launched = torch.compile(optimizer.step, backend=TorchCompileBackend()), []
    for _ in range(12):
        before = _C._launches()
        optimizer.zero_grad()
        call(torch.randn(6, 4).to("ftm")).sum().backward()
        assert _C._launches() == before
        step()
        launched.append(_C._launches() - before)
    assert launched[2:] == [1] * 10


def test_unread_results_are_not_computed() -> None:
    compiled = torch.compile(lambda x: ((x @ x).exp(), x + 1), backend=TorchCompileBackend())
    x = torch.ones(3, 3, device="ftm")
    compiled(x)
    torch.ftm.synchronize()
    product, total = compiled(x)
    del product
    text = str(trace_of(_C._trace([])))
    assert "add" in text and "exp" not in text
    assert total.tolist() == [[2.0] * 3] * 3


def windows(base: torch.Tensor) -> dict[str, torch.Tensor]:
    """Views of many kinds, whose storage has other elements as well."""
    return {
        "offset": base[2:5],
        "transposed": base.t()[1:4],
        "strided": base[1::2, ::2],
        "flat": base.flatten()[7:19].view(3, 4),
        "expanded": base[3, :1].expand(3, 4),
        "conjugate": torch.view_as_complex(
            base[:4].reshape(4, 2, -1).transpose(1, 2).contiguous()
        ).conj(),
        "odd": base.flatten()[1:9],
        "empty": base[:0],
    }


@pytest.mark.parametrize("kind", windows(torch.zeros(6, 6)))
@pytest.mark.parametrize("pending", [True, False])
def test_inputs_are_windows_of_storages(kind: str, pending: bool) -> None:
    compiled = torch.compile(lambda x: (x * 2 + 1, x.sum()), backend=TorchCompileBackend())
    cpu = torch.arange(36.0).reshape(6, 6)
    base = cpu.to("ftm")
    if pending:
        cpu, base = cpu + 1, base + 1
    expected = windows(cpu)[kind]
    for a, b in zip(compiled(windows(base)[kind]), (expected * 2 + 1, expected.sum()), strict=True):
        torch.testing.assert_close(a.cpu(), b)


def test_inputs_are_seen_as_another_dtype() -> None:
    widened = torch.compile(lambda x: x.view(torch.int32) + 1, backend=TorchCompileBackend())
    base = torch.arange(13, dtype=torch.int16)
    device = base.to("ftm")
    assert torch.equal(widened(device[2:10]).cpu(), base[2:10].clone().view(torch.int32) + 1)


@pytest.mark.parametrize("kind", ["offset", "transposed", "strided", "flat"])
def test_inputs_are_written_in_place(kind: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(y)
        y.add_(1)
        return x + y

    compiled = torch.compile(f, backend=TorchCompileBackend())
    cpu = torch.arange(36.0).reshape(6, 6)
    base = cpu.to("ftm")
    for _ in range(2):
        x, y = windows(cpu)[kind], torch.full_like(windows(cpu)[kind], 3.0)
        device_x, device_y = windows(base)[kind], y.clone().to("ftm")
        version = device_x._version
        torch.testing.assert_close(compiled(device_x, device_y).cpu(), f(x, y))
        torch.testing.assert_close(base.cpu(), cpu)
        torch.testing.assert_close(device_y.cpu(), y)
        assert device_x._version > version


def test_outputs_are_tensors_of_their_own() -> None:
    """Though they are one result, or views of one, or of an input."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y.view(-1), y.detach(), x.t(), y * 1

    x = torch.arange(6.0).reshape(2, 3)
    device = x.to("ftm")
    found = torch.compile(f, backend=TorchCompileBackend())(device)
    for a, b in zip(found, f(x), strict=True):
        assert torch.equal(a.cpu(), b)
    assert len({id(each) for each in found}) == 5
    found[0].add_(1)
    assert torch.equal(found[1].cpu(), f(x)[1] + 1) and found[3].data_ptr() == device.data_ptr()
    assert torch.equal(found[4].cpu(), x * 2)


def test_threads_record_for_themselves() -> None:
    model = nn.Linear(4, 4).to("ftm")
    compiled = torch.compile(model, backend=TorchCompileBackend())
    x = torch.randn(2, 4).to("ftm")
    expected = compiled(x).cpu()
    handed, found = compiled(x), []
    # what is pending elsewhere is launched
    thread = threading.Thread(target=lambda: found.append((handed + compiled(x)).cpu()))
    thread.start()
    thread.join()
    torch.testing.assert_close(found[0], 2 * expected)


def test_an_error_names_the_line() -> None:
    compiled = torch.compile(lambda table, index: table[index] * 2, backend=TorchCompileBackend())
    table, index = torch.randn(4, 2).to("ftm"), torch.tensor([0, 3]).to("ftm")
    compiled(table, index).cpu()
    wrong = compiled(table, index + 1)
    with pytest.raises(IndexError, match="test_compile_on_device"):
        wrong.cpu()
