"""torch_xla.core.xla_model, commonly imported as ``xm``: device, steps, saving."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

import ftm_lazy

__all__ = ["mark_step", "optimizer_step", "save", "wait_device_ops", "xla_device"]


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """The device ftm.

    Args:
        n: index of the device; there is only 0.
        devkind: accepted as torch_xla does; there is one kind of device here.
    """
    index = 0 if n is None else n
    if index not in range(torch.ftm.device_count()):
        raise RuntimeError(f"there is no device {index}; the devices are ftm:0")
    return torch.device("ftm", index)


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """Cuts the trace and launches what is recorded; with `wait`, also waits until it has run.

    `reset_scope` is accepted as torch_xla does, and means nothing here.
    """
    ftm_lazy.sync(wait)


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,
    optimizer_args: Mapping[str, Any] | None = None,
    groups: Any = None,
    pin_layout: bool = True,
) -> Any:
    """Calls `optimizer.step(**optimizer_args)` and returns its result; its end cuts the trace.

    There is one device, so there are no gradients to reduce, and `barrier`, `groups` and `pin_layout` mean nothing.
    """
    return optimizer.step(**(optimizer_args or {}))


def wait_device_ops(devices: list[str] | None = None) -> None:
    """Runs everything that is recorded and waits for it."""
    ftm_lazy.sync(wait=True)


def save(data: Any, file_or_path: str | Path | BinaryIO, master_only: bool = True, global_master: bool = False) -> None:
    """`torch.save` of `data` with its tensors moved to the CPU, so that the file loads anywhere.

    Tensors that share storage still do in the file.  There is one process, which is the master.
    """
    torch.save(_on_cpu(data, {}), file_or_path)


def _on_cpu(data: Any, moved: dict[tuple[int, torch.dtype], torch.Tensor]) -> Any:
    """`data` with its tensors on the CPU; `moved` holds the storages that are there already, flat."""
    if isinstance(data, torch.Tensor) and data.device.type == "ftm":
        return _tensor_on_cpu(data, moved)
    if isinstance(data, Mapping):
        result = copy.copy(data)  # keeps the metadata of a state_dict
        for key, value in data.items():
            result[key] = _on_cpu(value, moved)
        return result
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_on_cpu(value, moved) for value in data))
    if isinstance(data, (list, tuple, set)):
        return type(data)(_on_cpu(value, moved) for value in data)
    return data


def _tensor_on_cpu(tensor: torch.Tensor, moved: dict[tuple[int, torch.dtype], torch.Tensor]) -> torch.Tensor:
    storage = tensor.untyped_storage()
    key = (storage._cdata, tensor.dtype)
    if key not in moved:
        elements = storage.nbytes() // tensor.element_size()
        moved[key] = tensor.detach().as_strided((elements,), (1,), 0).cpu()
    result = moved[key].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(result, tensor.requires_grad)
    return result.requires_grad_(tensor.requires_grad)
