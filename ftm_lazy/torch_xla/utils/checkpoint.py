"""torch_xla.utils.checkpoint: `torch.utils.checkpoint` with torch_xla's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    """PyTorch's autograd function that recomputes a function in the backward pass."""


class CheckpointStatus:
    """Nesting depth of calls of `checkpoint`."""

    def __init__(self) -> None:
        self.depth = 0

    def increment(self) -> None:
        """Increase the depth by one."""
        self.depth += 1

    def decrement(self) -> None:
        """Decrease the depth by one."""
        self.depth -= 1


def get_device_states(*args: object) -> tuple[list[int], list[torch.Tensor]]:
    """Return the devices of the tensors in `args`, and the states of their generators."""
    return pytorch.get_device_states(*args)


def set_device_states(devices: Sequence[int], states: Sequence[torch.Tensor]) -> None:
    """Set the states of the devices' generators."""
    pytorch.set_device_states(devices, states)


def checkpoint(
    function: Callable[..., object], *args: object, use_reentrant: bool = True, **kwargs: object
) -> object:
    """Call a function whose intermediate values are recomputed in the backward pass.

    Args:
        function: The function.
        *args: Its arguments.
        use_reentrant: As of `torch.utils.checkpoint.checkpoint`.
        **kwargs: As of `torch.utils.checkpoint.checkpoint`.

    Returns:
        The function's result.
    """
    return pytorch.checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)
