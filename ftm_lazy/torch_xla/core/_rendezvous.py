"""Rendezvous of all processes: barriers that also exchange or reduce data."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection
from typing import TypeVar

import torch

from ftm_lazy.torch_xla import _steps, _world
from ftm_lazy.torch_xla.core._data import on_cpu

__all__ = ["do_on_ordinals", "mesh_reduce", "rendezvous", "xla_rendezvous"]

Data = TypeVar("Data")
Result = TypeVar("Result")


def xla_rendezvous(
    payload: bytes = b"", ordinals: list[int] | None = None, tag: str | None = None
) -> list[bytes]:
    """Wait for all processes, and return their payloads by ordinal.

    Args:
        payload: The payload of this process.
        ordinals: All ordinals, or None.
        tag: A name for logs.

    Raises:
        ValueError: `ordinals` are not all processes.
        TypeError: `payload` is not bytes.
    """
    if ordinals and len(ordinals) != _world.size():
        raise ValueError("Only global rendezvous is supported")
    if not isinstance(payload, bytes):
        raise TypeError(f"`payload` must be bytes, not {type(payload)}")
    _steps.sync()
    return _world.collective(payload)


def rendezvous(tag: str, payload: bytes = b"", replicas: list[int] = []) -> list[bytes]:  # noqa: B006
    """Call `xla_rendezvous`.

    Args:
        tag: A name for logs.
        payload: The payload of this process.
        replicas: All ordinals, or none.
    """
    return xla_rendezvous(payload, replicas or None, tag)


def mesh_reduce(tag: str, data: Data, reduce_fn: Callable[[list[Data]], Result]) -> Result:
    """Reduce the data of all processes with a Python function.

    Args:
        tag: A name for logs.
        data: The data of this process; its tensors are copied to the CPU.
        reduce_fn: Takes the list of all processes' data, by ordinal.

    Returns:
        The result of `reduce_fn`.
    """
    stream = io.BytesIO()
    torch.save(on_cpu(data), stream)
    payloads = rendezvous(tag, stream.getvalue())
    return reduce_fn([torch.load(io.BytesIO(payload), weights_only=False) for payload in payloads])


def do_on_ordinals(
    target: Callable[..., object],
    data: tuple[object, ...] = (),
    ordinals: Collection[int] | int = (0,),
) -> object:
    """Call ``target(*data)`` in some processes, and wait for all.

    Args:
        target: The function.
        data: Its arguments; tensors are copied to the CPU.
        ordinals: The ordinals that call it.

    Returns:
        The function's result; None in the other processes.
    """
    chosen = (ordinals,) if isinstance(ordinals, int) else ordinals
    result = target(*on_cpu(data)) if _world.ordinal() in chosen else None
    rendezvous("torch_xla.core.xla_model.do_on_ordinals")
    return result
