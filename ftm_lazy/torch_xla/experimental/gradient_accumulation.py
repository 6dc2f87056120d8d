"""torch_xla.experimental.gradient_accumulation: several small batches, one gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla.experimental import _loops

__all__ = ["GradientAccumulationContext", "gradient_accumulation"]

__getattr__ = _refusals.getter(__name__)


@dataclass(frozen=True)
class GradientAccumulationContext:
    """How many steps, tensors that are iterated over, and tensors that are carried along."""

    num_gradient_steps: int
    num_iterable_tensors: int
    num_carried_tensors: int


def gradient_accumulation(
    train_step: Callable[..., Any],
    iterable_tensors: tuple[torch.Tensor, ...],
    model: torch.nn.Module,
    *carried_tensors: torch.Tensor,
) -> Any:
    """Add the gradients of the mean loss over `iterable_tensors` to those of the model's
    parameters.

    Args:
        train_step: of the tensors at one index and the carried ones; gives the loss, or the loss
        and the next carried ones. iterable_tensors: of the same first dimension, the number of
        steps. model: whose parameters get the gradients. carried_tensors: the first ones.

    Returns:
        the mean loss, and the last carried tensors if there are any.

    Raises ValueError if the tensors' first dimensions differ or there are none.
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
                f"Element {index} of iterable_tensors has {tensor.shape[0]} steps, not {iterable_tensors[0].shape[0]}"
            )
    steps, total, carried = iterable_tensors[0].shape[0], 0.0, carried_tensors
    pieces = _loops.Pieces()
    for parts in zip(*(_loops.slices(tensor) for tensor in iterable_tensors), strict=True):
        result = train_step(*parts, *carried)
        loss, *rest = result if isinstance(result, (tuple, list)) else (result,)
        if len(rest) != len(carried):
            raise ValueError(f"train_step returned {len(rest)} carried tensors, not {len(carried)}")
        loss = loss / steps
        if loss.requires_grad:
            loss.backward()
        total, carried = total + loss.detach(), tuple(each.detach() for each in rest)
        pieces.end_of_step([])
    return (total, *carried) if carried else total
