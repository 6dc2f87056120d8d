"""A program that takes the recorder's locks in every way that it can: threads, forks, kernels in
Python, reads under Python's lock.

``LD_PRELOAD=watch.so python tests/locks/program.py REPORT`` writes into that file what breaks their
order, and prints how often one was taken.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ftm_lazy
from ftm_lazy import _C

warnings.simplefilter("ignore")
library = torch.library.Library("locks", "DEF")
for name, kernel, key in (
    ("doubled", lambda x: x * 2 + torch.zeros((), device=x.device), "CompositeExplicitAutograd"),
    ("moved", lambda x: x + 3, "CPU"),
):
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, kernel, key)


def trains(width: int) -> None:
    model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2)).to("ftm")
    optimizer = torch.optim.AdamW(model.parameters())
    for (x,) in DataLoader(TensorDataset(torch.ones(6, 4)), batch_size=4, num_workers=width % 2):
        loss = model(x.to("ftm")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    repr(loss), loss.item()


def reads_under_python_s_lock(width: int) -> None:
    x, place = torch.arange(20.0, device="ftm"), torch.tensor(width, device="ftm")
    for step in range(3):
        assert x[place + step].item() == width + step
        assert x[place - step :].shape == (20 - width + step,)


def calls_kernels_in_python(width: int) -> None:
    x = torch.ones(width, device="ftm")
    assert (
        torch.ops.locks.moved(torch.ops.locks.doubled(x.cos())).tolist()
        == torch.ops.locks.moved(2 * torch.ones(width).cos()).tolist()
    )


def multiplies_quantized(width: int) -> None:
    layer = torch.ao.nn.quantized.Linear(width, 3)
    for scale in (0.1, 0.2):
        x = torch.quantize_per_tensor(torch.ones(2, width), scale, 0, torch.quint8)
        assert layer(x.to("ftm")).dequantize().cpu().equal(layer(x).dequantize())


def fails(width: int) -> None:
    try:
        torch.arange(width, device="ftm")[torch.tensor([50], device="ftm")].tolist()
    except IndexError:
        return
    raise AssertionError("an index out of bounds was read")


def forks(width: int) -> None:
    pending = torch.ones(width, device="ftm") + 1
    child = os.fork()
    if child == 0:
        os._exit(int(torch.ones(3).sum().item() != 3))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pending.tolist() == [2.0] * width


def launches(width: int) -> None:
    for step in range(4):
        x = torch.ones(width + step, device="ftm").exp()
        ftm_lazy.sync()
    torch.ftm.synchronize()
    ftm_lazy.metrics.report(), x.cpu()


PARTS: list[Callable[[int], None]] = [
    trains, reads_under_python_s_lock, calls_kernels_in_python, multiplies_quantized, fails, forks, launches,
]  # fmt: skip


def work(width: int) -> None:
    for turn in range(len(PARTS)):
        PARTS[(turn + width) % len(PARTS)](width)


def main() -> None:
    watcher = ctypes.CDLL(os.environ["LD_PRELOAD"])
    assert watcher.watch(_C.__file__.encode(), sys.argv[1].encode()) == 1
    failures: list[BaseException] = []
    threading.excepthook = lambda failed: failures.append(failed.exc_value)
    work(2)
    threads = [threading.Thread(target=work, args=(width,), daemon=True) for width in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
        assert not thread.is_alive(), "a thread waits for what never comes"
    if failures:
        raise failures[0]
    print(watcher.taken_so_far())


if __name__ == "__main__":
    main()
