"""Nested structures of tensors: copying to the device or to the CPU, and saving."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch.distributed.tensor import DTensor

from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.utils import utils

__all__ = ["ToXlaTensorArena", "check_view_sharing", "on_cpu", "save", "send_cpu_data_to_device"]


class ToXlaTensorArena:
    """Replaces the tensors of a nested structure with one call of a function.

    Args:
        convert_fn: Maps a list of tensors to the list of their replacements.
        select_fn: Whether a value is to be replaced.
    """

    def __init__(
        self, convert_fn: Callable[[list[Any]], list[Any]], select_fn: Callable[..., bool]
    ) -> None:
        self._convert_fn, self._select_fn = convert_fn, select_fn

    def transform(self, inputs: object) -> Any:
        """Return a copy of `inputs` with the replacements; tuples become lists, as in torch_xla."""
        found: list[object] = []
        utils.for_each_instance(inputs, self._select_fn, found.append)
        converted = iter(self._convert_fn(found) if found else [])
        return utils.for_each_instance_rewrite(inputs, self._select_fn, lambda _: next(converted))


def check_view_sharing(obj: object) -> None:
    """Raise RuntimeError if two different tensors in `obj` share a storage."""
    seen: dict[int, torch.Tensor] = {}

    def check(tensor: torch.Tensor) -> None:
        other = seen.setdefault(tensor.untyped_storage()._cdata, tensor)
        if other is not tensor:
            raise RuntimeError(
                f"Tensor ID {id(tensor)} ({tensor.dtype}{list(tensor.shape)}) is sharing a view"
                f" with tensor ID {id(other)} ({other.dtype}{list(other.shape)})"
            )

    utils.for_each_instance(obj, lambda value: type(value) is torch.Tensor, check)


def send_cpu_data_to_device(
    datas: object, device: torch.device | str, input_sharding: object = None
) -> Any:
    """Return a copy of a structure with its CPU tensors on `device`.

    Args:
        datas: Tensors in lists, tuples, dicts and objects. A single tensor is treated as a list.
        device: The target device.
        input_sharding: Accepted; each process has one device, so nothing is sharded.
    """
    listed = [datas] if type(datas) is torch.Tensor else datas
    return utils.for_each_instance_rewrite(
        listed,
        lambda value: type(value) is torch.Tensor and value.device.type == "cpu",
        lambda tensor: tensor.to(device),
    )


def save(
    data: object,
    file_or_path: str | Path | BinaryIO,
    master_only: bool = True,
    global_master: bool = False,
) -> None:
    """Save data with `torch.save`, with its tensors on the CPU, so it can be loaded on any device.

    Tensors that share a storage share one in the file.

    Args:
        data: Any structure.
        file_or_path: The file; each process that writes needs another one.
        master_only: Write in the first process only.
        global_master: The first process is that of the world, not of each host.
    """
    first = _world.ordinal() if global_master else _world.local_ordinal()
    if not master_only or first == 0:
        torch.save(on_cpu(data), file_or_path)


def on_cpu(data: object) -> Any:
    """Return a copy of `data` with its tensors on the CPU; shared storages stay shared."""
    return _on_cpu(data, {})


def _on_cpu(data: object, moved: dict[tuple[int, torch.dtype], torch.Tensor]) -> Any:
    """Copy `data` to the CPU; `moved` has the flat copies of storages made so far."""
    if isinstance(data, torch.Tensor) and data.device.type == NAME:
        return _tensor_on_cpu(data, moved)
    if isinstance(data, Mapping):
        result: Any = copy.copy(data)  # keeps the metadata of a state_dict
        for key, value in data.items():
            result[key] = _on_cpu(value, moved)
        return result
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(_on_cpu(value, moved) for value in data))
    if isinstance(data, (list, tuple, set)):
        return type(data)(_on_cpu(value, moved) for value in data)
    return data


def _tensor_on_cpu(
    tensor: torch.Tensor, moved: dict[tuple[int, torch.dtype], torch.Tensor]
) -> torch.Tensor:
    # each process saves its shard of a sharded model
    if isinstance(tensor, DTensor):
        tensor = tensor.to_local()
    storage = tensor.untyped_storage()
    key = (storage._cdata, tensor.dtype)
    if key not in moved:
        elements = storage.nbytes() // tensor.element_size()
        moved[key] = tensor.detach().as_strided((elements,), (1,), 0).cpu()
    result = moved[key].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(result, tensor.requires_grad)
    return result.requires_grad_(tensor.requires_grad)
