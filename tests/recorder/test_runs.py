"""Running: asynchronous, in order, at any depth, across threads, forks and the end of the
process."""

import gc
import io
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import ftm_lazy
from ftm_lazy import _C
from python_process import run_python


def counters() -> dict[str, int]:
    return _C._counters()


def test_observation_runs_all_that_is_pending_as_one_program() -> None:
    x = torch.ones(4, device="ftm")
    _C._sync(True)
    _C._reset_counters()
    total, product = (x + 1).sum(), x * 3
    assert total.item() == 8
    assert product.tolist() == [3, 3, 3, 3]
    assert counters()["executions"] == 1


def test_reading_again_runs_nothing() -> None:
    x = torch.arange(3.0, device="ftm") * 2
    x.tolist()
    _C._reset_counters()
    assert x.tolist() == [0, 2, 4] and x.sum(0, keepdim=True).shape == (1,)
    assert counters().get("executions", 0) == 0


def test_a_dead_result_is_not_computed() -> None:
    x = torch.ones(2, device="ftm")
    _C._sync(True)
    _C._reset_counters()
    for _ in range(3):
        _ = x * 2
    del _
    _C._sync(True)
    assert counters().get("executions", 0) == 0


def test_long_traces_cut_by_themselves() -> None:
    _C._set_trace_limit(100)
    x = torch.zeros(2, device="ftm")
    _C._sync(True)
    _C._reset_counters()
    for _ in range(1000):
        x = x + 1
    _C._wait()
    assert counters()["executions"] >= 9
    assert x.tolist() == [1000, 1000]


@pytest.mark.parametrize("limit", [0, 20000])
def test_very_deep_graphs(limit: int) -> None:
    _C._set_trace_limit(limit)
    x = torch.zeros((), device="ftm")
    for _ in range(30000):
        x = x + 1
    if limit:
        assert x.item() == 30000
    del x  # 30,000 calls deep: freed without recursion


def test_deep_chain_of_writes_through_views() -> None:
    x = torch.zeros(4, 4, device="ftm")
    for i in range(2000):
        x[i % 4, : 1 + i % 3].t().add_(1)
    expected = torch.zeros(4, 4)
    for i in range(2000):
        expected[i % 4, : 1 + i % 3].add_(1)
    assert torch.equal(x.cpu(), expected)


def test_errors_surface_at_the_next_observation() -> None:
    x = torch.arange(3.0, device="ftm")
    rows = torch.tensor([7], device="ftm") + 0  # the device computes it
    y = x.index_select(0, rows)  # out of range: only known when it runs
    z = x + 1
    with pytest.raises(
        IndexError, match="index out of range in self\n.*a program that was launched earlier"
    ):
        y.cpu()
    with pytest.raises(IndexError):
        z.cpu()  # it comes after the error, in the same program
    assert (torch.ones(2, device="ftm") + 1).tolist() == [2, 2]


def _line() -> int:
    """Of the caller."""
    return sys._getframe(1).f_lineno


def test_an_unread_error_names_the_line_that_recorded_it() -> None:
    """Later and elsewhere: in a program that is the same, whichever line recorded it."""
    x, rows = torch.arange(3.0, device="ftm"), torch.tensor([7], device="ftm") + 0
    lines = []
    for other in (False, True):
        if other:
            y, line = x.index_select(0, rows), _line()
        else:
            y, line = torch.index_select(x, 0, rows), _line()
        ftm_lazy.sync()
        del y
        with pytest.raises(
            IndexError,
            match=rf"index_select in .*, at {__file__}:\d+; recorded at {__file__}:{line}\)",
        ):
            (torch.ones(2, device="ftm") + 1).cpu()
        lines.append(line)
    assert lines[0] != lines[1]


def test_an_error_of_a_gradient_names_the_line_that_asked_for_it() -> None:
    x = torch.arange(3.0, device="ftm", requires_grad=True)
    picked = torch.tensor([1]).to("ftm") + 0
    y = x.gather(0, picked)
    picked.data.add_(7)  # unseen by autograd: the scatter behind it finds out
    y.sum().backward(), (line := _line())
    with pytest.raises(
        (IndexError, RuntimeError), match=rf"scatter_add in .*; recorded at {__file__}:{line}\)"
    ):
        x.grad.cpu()


def test_an_error_of_a_gradient_of_ones_own_names_its_line() -> None:
    class Doubled(torch.autograd.Function):
        lines: ClassVar[list[int]] = []

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            Doubled.lines.append(_line() + 1)
            return gradient.index_select(0, torch.zeros(3, dtype=torch.int32, device="ftm") + 7)

    x = torch.arange(3.0, device="ftm", requires_grad=True)
    Doubled.apply(x).sum().backward()
    with pytest.raises(IndexError) as caught:
        x.grad.cpu()
    assert f"recorded at {__file__}:{Doubled.lines[0]})" in str(caught.value)


def test_back_pressure_keeps_few_in_flight() -> None:
    _C._set_max_in_flight(1)
    x = torch.ones(64, 64, device="ftm")
    for _ in range(10):
        x = x @ x * 1e-2
        _C._sync(False)
    assert x.isfinite().all().item()
    _C._set_max_in_flight(3)


def test_memory_of_a_steady_loop_is_flat() -> None:
    weight = torch.ones(256, 256, device="ftm")
    sizes = []
    for step in range(60):
        weight.mul_(0.99).add_((weight * 2).tanh(), alpha=0.01)
        _C._sync(False)
        if step >= 20:
            sizes.append(torch.ftm.memory_reserved())
    _C._sync(True)
    assert max(sizes[20:]) <= max(sizes[:20])


def test_storage_statistics_follow_tensors() -> None:
    gc.collect()
    before = torch.ftm.memory_allocated()
    x = torch.empty(1000, device="ftm")
    assert torch.ftm.memory_allocated() - before == 4000
    view = x[10:]
    del x
    assert torch.ftm.memory_allocated() - before == 4000
    del view
    assert torch.ftm.memory_allocated() == before


def test_threads_record_at_the_same_time() -> None:
    results: dict[int, float] = {}

    def work(index: int) -> None:
        x = torch.full((8,), float(index), device="ftm")
        for _ in range(50):
            x = x + 1
            if index % 2:
                x.sum().item()
        results[index] = x[0].item()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {index: index + 50.0 for index in range(4)}


def test_save_and_load_keep_sharing(tmp_path: Path) -> None:
    x = torch.arange(6.0, device="ftm")
    file = io.BytesIO()
    torch.save({"x": x, "tail": x[2:], "t": x.view(2, 3).t()}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["x"].device.type == "ftm"
    loaded["tail"].mul_(10)
    assert loaded["x"].tolist() == [0, 1, 20, 30, 40, 50]
    assert loaded["t"].tolist() == [[0, 30], [1, 40], [20, 50]]
    file.seek(0)
    assert torch.load(file, map_location="cpu")["t"].stride() == (1, 3)
    torch.save(torch.arange(3.0), tmp_path / "cpu.pt")
    assert torch.load(tmp_path / "cpu.pt", map_location="ftm").tolist() == [0, 1, 2]


class Tied(nn.Module):
    """An embedding and a head that share one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight


def test_modules_keep_their_parameters_when_they_move() -> None:
    model = Tied()
    weight = model.embedding.weight
    start = weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("ftm")
    assert model.head.weight is model.embedding.weight is weight
    model.head(model.embedding(torch.tensor([1], device="ftm"))).sum().backward()
    optimizer.step()
    model.to("cpu")
    assert weight.device.type == weight.grad.device.type == "cpu"
    torch.testing.assert_close(weight.detach(), start - weight.grad)


def test_data_may_change_device() -> None:
    x = torch.ones(3)
    x.data = torch.zeros(2).to("ftm")
    assert (x.device.type, x.tolist()) == ("ftm", [0, 0])
    x.data = torch.ones(4)
    assert (x + 1).tolist() == [2, 2, 2, 2]


def _in_new_process(program: str) -> subprocess.CompletedProcess[str]:
    head = """
        import os, sys, torch
        from ftm_lazy import _C
        from ftm_lazy.device import registration
        registration.initialize(); _C._set_executor("reference"); _C._set_native_ops({"*": []})
        """
    return run_python(textwrap.dedent(head) + textwrap.dedent(program))


def test_a_forked_child_says_why_it_cannot() -> None:
    done = _in_new_process(
        """
        x = torch.ones(3, device="ftm"); x.sum().item()
        pending = x + 1
        child = os.fork()
        if child == 0:
            try:
                pending.cpu()
            except RuntimeError as error:
                print(error, flush=True)
            del pending, x
            print(torch.ones(2).sum().item(), torch.ftm._is_in_bad_fork(), flush=True)
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), pending.tolist())
        """
    )
    assert done.returncode == 0, done.stderr
    assert "Cannot re-initialize device ftm in forked subprocess" in done.stdout
    assert "2.0 True" in done.stdout
    assert "7 [2.0, 2.0, 2.0]" in done.stdout


def test_data_loader_workers() -> None:
    done = _in_new_process(
        """
        from torch.utils.data import DataLoader, TensorDataset
        x = torch.ones(3, device="ftm"); x.sum().item()
        loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=2)
        print([batch.to("ftm").sum().item() for (batch,) in loader])
        """
    )
    assert done.returncode == 0, done.stderr
    assert "[6.0, 22.0]" in done.stdout


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "raise SystemExit(0)"])
def test_the_process_ends_with_work_pending_and_in_flight(ending: str) -> None:
    done = _in_new_process(
        f"""
        x = torch.ones(300, 300, device="ftm")
        for _ in range(5):
            x = x @ x
            _C._sync(False)
        y = x + 1
        {ending}
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
