"""Pickling of the device's tensors for other processes: `Process`, queues, pools, DataLoader.

Device memory belongs to one process. Sending a tensor to another process copies it, and neither
process sees the other's later writes. So `is_shared()` returns False and `share_memory_()` raises
an error: a program that trains one model from several processes would silently train separate
copies.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import TypeAlias

import torch
from torch.multiprocessing import reductions

from ftm_lazy.device.device_name import NAME

Reduced: TypeAlias = tuple[Callable[..., object], tuple[object, ...]]
Storage: TypeAlias = torch.UntypedStorage


def install() -> None:
    """Register the pickling by value, and make `share_memory_()` an error."""
    for kind in (torch.Tensor, torch.nn.parameter.Parameter):
        ForkingPickler.register(kind, _reduce)
    ForkingPickler.register(Storage, _reduce_storage)  # for other subclasses of Tensor
    # setattr, because mypy forbids assigning to a method
    setattr(Storage, "is_shared", _patched_is_shared(Storage.is_shared))  # noqa: B010
    setattr(Storage, "share_memory_", _patched_share_memory(Storage.share_memory_))  # noqa: B010


def _patched_is_shared(is_shared: Callable[[Storage], bool]) -> Callable[[Storage], bool]:
    def of_storage(storage: Storage) -> bool:
        return storage.device.type != NAME and is_shared(storage)

    of_storage.__name__ = "is_shared"
    return of_storage


def _patched_share_memory(share: Callable[[Storage], Storage]) -> Callable[[Storage], Storage]:
    def of_storage(storage: Storage) -> Storage:
        if storage.device.type == NAME:
            raise RuntimeError(
                f"share_memory_() is not supported on device {NAME}: its memory belongs to one"
                " process, so each process that receives a tensor has a copy and does not see the"
                " others' writes. To train one model from several processes, use torch.distributed"
                f" (DistributedDataParallel works on {NAME}), or keep the shared parameters on the"
                " CPU: model.cpu().share_memory()."
            )
        return share(storage)

    of_storage.__name__ = "share_memory_"
    return of_storage


def _reduce(tensor: torch.Tensor) -> Reduced:
    if tensor.device.type != NAME:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return _refuse(
            "cannot send a tensor that requires grad and is not a leaf to another process, since"
            " autograd does not cross processes: send tensor.detach()"
        )
    try:
        value = tensor.detach().cpu()
    except RuntimeError as error:
        return _refuse(str(error))
    # The arguments of a process are pickled before it starts. Shared memory would be closed by
    # then, because only the pickle refers to `value`. A queue keeps the memory open until the
    # tensor is received.
    content: torch.Tensor | bytes = value if get_spawning_popen() is None else _to_bytes(value)
    return _rebuild, (type(tensor), content, tensor.requires_grad)


def _reduce_storage(storage: Storage) -> Reduced:
    if storage.device.type != NAME:
        return reductions.reduce_storage(storage)
    elements = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return torch.Tensor.untyped_storage, (elements,)


def _refuse(message: str) -> Reduced:
    """Raise an error: here for the arguments of a process, in the receiver for a queue.

    A queue pickles on a separate thread, where an error would reach no caller.
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
