"""torch_xla.utils.checkpoint: `torch.utils.checkpoint`, under torch_xla's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils.checkpoint as pytorch

__all__ = [
    "CheckpointFunction",
    "CheckpointStatus",
    "checkpoint",
    "get_device_states",
    "set_device_states",
]


class CheckpointFunction(pytorch.CheckpointFunction):
    """PyTorch's: computes a function again in the backward pass."""


class CheckpointStatus:
    """How deep the calls of `checkpoint` are nested."""

    def __init__(self) -> None:
        self.depth = 0

    def increment(self) -> None:
        """One deeper."""
        self.depth += 1

    def decrement(self) -> None:
        """One less deep."""
        self.depth -= 1


def get_device_states(*args: object) -> tuple[list[int], list[torch.Tensor]]:
    """Return the devices of `args`' tensors, and the states of their generators."""
    return pytorch.get_device_states(*args)


def set_device_states(devices: Sequence[int], states: Sequence[torch.Tensor]) -> None:
    """Set the states of the devices' generators."""
    pytorch.set_device_states(devices, states)


def checkpoint(
    function: Callable[..., Any], *args: object, use_reentrant: bool = True, **kwargs: object
) -> Any:
    """``function(*args)`` whose intermediate values are computed again in the backward pass; see
    PyTorch's."""
    return pytorch.checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)
