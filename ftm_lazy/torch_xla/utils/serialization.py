"""torch_xla.utils.serialization: save a structure in one file and each tensor in another."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.core._data import ToXlaTensorArena, on_cpu
from ftm_lazy.torch_xla.core.xla_model import is_xla_tensor

__all__ = ["TensorReference", "load", "save"]


class TensorReference:
    """Placeholder in the file for the tensor with index `tid`."""

    def __init__(self, tid: int) -> None:
        self.tid = tid


def _folder(path: str | os.PathLike[str]) -> Path:
    return Path(f"{os.fspath(path)}.tensors")


def save(
    data: object,
    path: str | os.PathLike[str],
    master_only: bool = True,
    global_master: bool = False,
) -> None:
    """Save `data` to `path`, and its tensors on the device, copied to the CPU, to ``PATH.tensors``.

    Args:
        data: Any structure; tuples become lists.
        path: The file; each process that writes needs another one.
        master_only: Write in the first process only.
        global_master: The first process is that of the world, not of each host.
    """
    first = _world.ordinal() if global_master else _world.local_ordinal()
    if master_only and first != 0:
        return
    folder = _folder(path)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    def store(tensors: list[torch.Tensor]) -> list[TensorReference]:
        for number, tensor in enumerate(on_cpu(tensors)):
            torch.save(tensor, folder / f"tensor_{number}.pt")
        return [TensorReference(number) for number in range(len(tensors))]

    torch.save(
        ToXlaTensorArena(store, lambda v: type(v) is torch.Tensor and is_xla_tensor(v)).transform(
            data
        ),
        path,
    )


def load(path: str | os.PathLike[str]) -> Any:
    """Load data of `save`, with its tensors on the CPU.

    Use it for trusted files only: a file can contain any Python object.
    """
    folder = _folder(path)

    def fetch(references: list[TensorReference]) -> list[torch.Tensor]:
        return [torch.load(folder / f"tensor_{each.tid}.pt") for each in references]

    whole = torch.load(path, weights_only=False)
    return ToXlaTensorArena(fetch, lambda value: isinstance(value, TensorReference)).transform(
        whole
    )
