"""Tensors of the device that go from one process to another."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from python_process import Program, run_python

PROGRAM = """
import warnings
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.tensor(float(index))

class Squares(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.tensor(float(index), device="ftm") ** 2

def send(queue, received):
    queue.put(torch.nn.Parameter(torch.ones(2, device="ftm") * 3))
    queue.put(torch.zeros(2, device="ftm", requires_grad=True))
    received.wait()  # as for tensors of the CPU: shared memory is handed over by the process that made it

if __name__ == "__main__":
    total = torch.zeros((), device="ftm")
    for batch in DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context="spawn"):
        assert batch.device == torch.device("ftm:0")
        total += batch.sum()
    assert total.item() == 55.0
    for workers in (dict(num_workers=0), *(dict(num_workers=1, multiprocessing_context=start) for start in ("fork", "spawn"))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that pin_memory_device is not needed any more
            batches = list(DataLoader(Numbers(), batch_size=2, pin_memory=True, pin_memory_device="ftm", **workers))
        assert all(batch.is_pinned() for batch in batches)
        assert sum(batch.to("ftm", non_blocking=True).sum() for batch in batches).item() == 15.0
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=send, args=(queue, received := context.Event()))
    process.start()
    parameter, leaf = queue.get(), queue.get()
    received.set()
    process.join()
    assert type(parameter) is torch.nn.Parameter and parameter.tolist() == [3.0, 3.0]
    assert leaf.requires_grad and leaf.is_leaf and leaf.device.type == "ftm"
    print("done")
"""


def test_workers_and_what_they_send(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = Program(program).wait(240)
    assert done.stdout == "done\n", done.stderr


FORKED = """
import torch
from torch.utils.data import DataLoader

x = torch.ones(3).to("ftm")
{run}
try:
    list(DataLoader(range(4), num_workers=1, collate_fn=lambda batch: x + 1))
except RuntimeError as error:
    print("Cannot re-initialize device ftm in forked subprocess" in str(error))
"""


@pytest.mark.parametrize("run", ["", "(x * 2).cpu()"], ids=["copied", "computed"])
def test_forked_workers_are_told(run: str) -> None:
    """Whether the parent has run a program or only copied to the device."""
    done = run_python(FORKED.format(run=run))
    assert done.stdout == "True\n", done.stdout + done.stderr


ARGUMENTS = """
import sys
import torch
import torch.multiprocessing as mp

class Tagged(torch.Tensor):
    pass

def work(queue, model, tensors):
    queue.put([model.weight.device.type == "ftm", type(model.weight).__name__, model.weight.requires_grad])
    queue.put([tensor.cpu().to_dense().tolist() for tensor in tensors])

def square(tensor):
    return tensor * tensor

if __name__ == "__main__":
    x = torch.arange(6.0, device="ftm").reshape(2, 3)
    tensors = [x, x.t(), x[1:], x.bfloat16(), x > 2, x.to(torch.complex64), x[:0], x.sum(), x.to_sparse(), x.as_subclass(Tagged)]
    context = mp.get_context(sys.argv[1])
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue, torch.nn.Linear(3, 2).to("ftm"), tensors))
    process.start()
    assert queue.get() == [True, "Parameter", True]
    assert queue.get() == [tensor.cpu().to_dense().tolist() for tensor in tensors]
    process.join()
    assert process.exitcode == 0
    with context.Pool(1) as pool:
        assert pool.map(square, [x])[0].tolist() == (x * x).tolist()
    try:
        context.Process(target=square, args=(torch.ones(2, device="ftm", requires_grad=True) * 2,)).start()
    except RuntimeError as error:
        assert "send tensor.detach()" in str(error)
    print("done")
"""


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_arguments_of_a_process(start: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ARGUMENTS)
    done = Program(program, (start,)).wait(240)
    assert done.stdout == "done\n", done.stderr


def test_memory_is_not_shared() -> None:
    """Each process has a copy, so code that relies on shared memory must not start to train."""
    model = torch.nn.Linear(2, 2).to("ftm")
    assert not model.weight.is_shared() and not model.weight.untyped_storage().is_shared()
    for share in (
        model.share_memory,
        model.weight.share_memory_,
        model.weight.untyped_storage().share_memory_,
    ):
        with pytest.raises(RuntimeError, match="its memory belongs to one process"):
            share()
    assert not torch.ones(2).is_shared() and torch.ones(2).share_memory_().is_shared()
