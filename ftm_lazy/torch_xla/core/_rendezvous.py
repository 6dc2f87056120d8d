"""Where all processes meet: what each brings, reduced or handed to all."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection
from typing import Any

import torch

from ftm_lazy.torch_xla import _steps, _world
from ftm_lazy.torch_xla.core._data import on_cpu

__all__ = ["do_on_ordinals", "mesh_reduce", "rendezvous", "xla_rendezvous"]


def xla_rendezvous(
    payload: bytes = b"", ordinals: list[int] | None = None, tag: str | None = None
) -> list[bytes]:
    """Return the payloads of all processes, by ordinal; waits for them.

    Raises ValueError if `ordinals` are not all processes, TypeError if `payload` is not bytes.
    """
    if ordinals and len(ordinals) != _world.size():
        raise ValueError("Only global rendezvous is supported")
    if not isinstance(payload, bytes):
        raise TypeError(f"`payload` must be bytes, not {type(payload)}")
    _steps.sync()
    return _world.collective(payload)


def rendezvous(tag: str, payload: bytes = b"", replicas: list[int] = []) -> list[bytes]:  # noqa: B006
    """`xla_rendezvous` under a name for logs."""
    return xla_rendezvous(payload, replicas or None, tag)


def mesh_reduce(tag: str, data: object, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """``reduce_fn([data of process 0, data of process 1, ...])``, with their tensors on the CPU;
    waits for all."""
    stream = io.BytesIO()
    torch.save(on_cpu(data), stream)
    payloads = rendezvous(tag, stream.getvalue())
    return reduce_fn([torch.load(io.BytesIO(payload), weights_only=False) for payload in payloads])


def do_on_ordinals(
    target: Callable[..., Any], data: object = (), ordinals: Collection[int] | int = (0,)
) -> Any:
    """``target(*data)``, tensors on the CPU, in the processes `ordinals`; None in the others. Waits
    for all."""
    chosen = (ordinals,) if isinstance(ordinals, int) else ordinals
    result = target(*on_cpu(data)) if _world.ordinal() in chosen else None
    rendezvous("torch_xla.core.xla_model.do_on_ordinals")
    return result
