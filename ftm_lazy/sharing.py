"""Tensors that go from one process to another, through queues and the workers of a DataLoader.

Device memory belongs to its process: a tensor is sent as its value, through shared memory of the CPU, and is one of the
other process's own there.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from ftm_lazy.device_name import NAME

__all__ = ["send_by_value"]

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def send_by_value() -> None:
    """Makes tensors of the device go by value where PyTorch would ask for an address in shared memory."""
    for kind in (torch.Tensor, torch.nn.parameter.Parameter):
        ForkingPickler.register(kind, _reduce)


def _reduce(tensor: torch.Tensor) -> Reduced:
    if tensor.device.type != NAME:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return _fail, (
            "cannot send a tensor that requires grad and is not a leaf to another process, since autograd does not go"
            " from one to the other: send tensor.detach()",
        )
    try:
        value = tensor.detach().cpu()
    except RuntimeError as error:
        return _fail, (str(error),)
    return _rebuild, (type(tensor), value, tensor.requires_grad)


def _fail(message: str) -> None:
    """Raises where the tensor is received: queues send on a thread of their own, whose errors nobody would see."""
    raise RuntimeError(f"a tensor could not be sent from another process: {message}")


def _rebuild(kind: type, value: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    tensor = value.to(NAME)
    if issubclass(kind, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
