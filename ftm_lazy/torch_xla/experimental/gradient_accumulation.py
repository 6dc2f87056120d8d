"""torch_xla.experimental.gradient_accumulation: one gradient of several small batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla.experimental import _loops

__all__ = ["GradientAccumulationContext", "gradient_accumulation"]

__getattr__ = _refusals.getter(__name__)


@dataclass(frozen=True)
class GradientAccumulationContext:
    """Numbers of steps, of iterated tensors, and of carried tensors."""

    num_gradient_steps: int
    num_iterable_tensors: int
    num_carried_tensors: int


def gradient_accumulation(
    train_step: Callable[..., object],
    iterable_tensors: tuple[torch.Tensor, ...],
    model: torch.nn.Module,
    *carried_tensors: torch.Tensor,
) -> object:
    """Accumulate the gradients of the mean loss over several steps.

    Args:
        train_step: Takes the slices of one step and the carried tensors. Returns the loss, or the
            loss and the next carried tensors.
        iterable_tensors: Tensors whose first dimension is the number of steps.
        model: The model whose parameters get the gradients.
        *carried_tensors: The first carried tensors.

    Returns:
        The mean loss, and the last carried tensors if there are any.

    Raises:
        ValueError: There are no tensors, or their first dimensions differ.
    """
    if not iterable_tensors:
        raise ValueError("iterable_tensors cannot be empty")
    for index, tensor in enumerate(iterable_tensors):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Element {index} of iterable_tensors is not a tensor")
        if tensor.numel() == 0:
            raise ValueError(f"Element {index} of iterable_tensors is empty")
        if tensor.shape[0] != iterable_tensors[0].shape[0]:
            raise ValueError(
                f"Element {index} of iterable_tensors has {tensor.shape[0]} steps,"
                f" not {iterable_tensors[0].shape[0]}"
            )
    steps, total = iterable_tensors[0].shape[0], 0.0
    carried = _loops.copies(carried_tensors)
    pieces = _loops.Pieces()
    for parts in zip(*(_loops.slices(tensor) for tensor in iterable_tensors), strict=True):
        result = train_step(*_loops.copies(parts), *carried)
        loss, *state = result if isinstance(result, (tuple, list)) else (result,)
        if len(state) != len(carried):
            raise ValueError(
                f"train_step returned {len(state)} carried tensors, not {len(carried)}"
            )
        loss = loss / steps
        if loss.requires_grad:
            loss.backward()
        total, carried = total + loss.detach(), tuple(each.detach() for each in state)
        pieces.end_of_step([])
    return (total, *carried) if carried else total
