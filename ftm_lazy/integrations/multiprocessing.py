"""Tensors of the device in other processes: arguments of `Process`, queues, pools and DataLoader
workers.

Device memory belongs to one process. A tensor that is sent to another process is copied there, and
later writes stay in the process that makes them. So `is_shared()` is False, and `share_memory_()`
raises an error: a program that trains one model from several processes would otherwise train
separate copies and show no sign of it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeAlias

import torch
from torch.multiprocessing import reductions

from ftm_lazy.device.device_name import NAME

__all__ = ["install"]

Reduced: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
Storage: TypeAlias = torch.UntypedStorage


def install() -> None:
    """Send tensors of the device to other processes by value, and refuses to share their
    memory."""
    for kind in (torch.Tensor, torch.nn.parameter.Parameter):
        ForkingPickler.register(kind, _reduce)
    ForkingPickler.register(Storage, _reduce_storage)  # of tensors of other subclasses
    setattr(Storage, "is_shared", _private_to_the_process(Storage.is_shared))  # noqa: B010  (mypy forbids assigning to a method)
    setattr(Storage, "share_memory_", _refusing_to_share(Storage.share_memory_))  # noqa: B010


def _private_to_the_process(is_shared: Callable[[Storage], bool]) -> Callable[[Storage], bool]:
    def of_storage(storage: Storage) -> bool:
        return storage.device.type != NAME and is_shared(storage)

    of_storage.__name__ = "is_shared"
    return of_storage


def _refusing_to_share(share: Callable[[Storage], Storage]) -> Callable[[Storage], Storage]:
    def of_storage(storage: Storage) -> Storage:
        if storage.device.type == NAME:
            raise RuntimeError(
                f"share_memory_() is not supported on device {NAME}: its memory belongs to one process, so each process that receives"
                " a tensor has a copy and does not see the others' writes. To train one model from several processes, use"
                f" torch.distributed (DistributedDataParallel works on {NAME}), or keep the shared parameters on the CPU:"
                " model.cpu().share_memory()."
            )
        return share(storage)

    of_storage.__name__ = "share_memory_"
    return of_storage


def _reduce(tensor: torch.Tensor) -> Reduced:
    if tensor.device.type != NAME:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return _refuse(
            "cannot send a tensor that requires grad and is not a leaf to another process, since autograd does not go"
            " from one to the other: send tensor.detach()"
        )
    try:
        value = tensor.detach().cpu()
    except RuntimeError as error:
        return _refuse(str(error))
    # The arguments of a process are pickled before it starts. Shared memory would be closed by
    # then: nothing but the pickle refers to `value`. A queue holds the memory open until the tensor
    # is received.
    content: torch.Tensor | bytes = value if get_spawning_popen() is None else _to_bytes(value)
    return _rebuild, (type(tensor), content, tensor.requires_grad)


def _reduce_storage(storage: Storage) -> Reduced:
    if storage.device.type != NAME:
        return reductions.reduce_storage(storage)
    elements = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return torch.Tensor.untyped_storage, (elements,)


def _refuse(message: str) -> Reduced:
    """Raise the error here for the arguments of a process, and in the receiver for a queue.

    A queue pickles on a thread of its own, and an error there reaches no caller.
    """
    if get_spawning_popen() is not None:
        raise RuntimeError(message)
    return _fail, (message,)


def _fail(message: str) -> None:
    raise RuntimeError(f"a tensor could not be sent from another process: {message}")


def _to_bytes(value: torch.Tensor) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _rebuild(kind: type, content: torch.Tensor | bytes, requires_grad: bool) -> torch.Tensor:
    value = (
        torch.load(io.BytesIO(content), weights_only=True)
        if isinstance(content, bytes)
        else content
    )
    tensor = value.to(NAME)
    if issubclass(kind, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
