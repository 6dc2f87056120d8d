"""Long loops over tensors, split into chunks of equal length that run one program.

A loop of 2,048 steps recorded as one trace would be compiled as a whole. Here the trace is cut
after each chunk: in the forward pass by a call, in the backward pass by a hook on the gradient of a
carried tensor. Chunks have the same number of steps, so they share one program. Gradients of
tensors that all steps use are accumulated chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import torch
from torch.utils._pytree import tree_map_only

from ftm_lazy import _C, metrics

__all__ = ["Pieces", "copies", "gather", "slices"]

Tree = TypeVar("Tree")

_OPERATIONS = 256
"""Operations of a chunk: enough to hide the launch, few enough to compile quickly."""

_FAN = 64  # maximum number of operands of one concatenation


class Pieces:
    """Counts the steps of a loop, and cuts the trace after each chunk."""

    def __init__(self) -> None:
        self._before = metrics.counters()["ops_traced"]
        self._steps = 0
        self.length = 0
        """Steps of a chunk; 0 until the first step has ended."""

    def end_of_step(self, carried: list[torch.Tensor]) -> None:
        """Cut the trace if the step that has ended completes a chunk.

        Args:
            carried: The tensors that the step passes to the next one.
        """
        if not self.length:
            recorded = metrics.counters()["ops_traced"] - self._before
            self.length = max(1, _OPERATIONS // max(1, recorded))
        self._steps += 1
        if self._steps % self.length:
            return
        _C._sync(False)
        for tensor in carried:
            if tensor.requires_grad:
                tensor.register_hook(_cut)
                return


def _cut(gradient: torch.Tensor) -> None:
    _C._sync(False)


def copies(tree: Tree) -> Tree:
    """Return a tree with a copy of each tensor, so that a step may write its arguments.

    The caller's tensors keep their values. A copy is not recorded as an operation: it shares the
    value until one of the two is written.
    """
    return tree_map_only(torch.Tensor, torch.clone, tree)


def slices(whole: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the slices of `whole` along dimension 0.

    The gradient is assembled in a tree of concatenations with at most `_FAN` operands each.
    """
    if whole.shape[0] > _FAN:
        # A slice of a tensor in memory that was written once is a parameter of the chunk's
        # program, at any offset. If the tensor was overwritten (randn, copy_), the offset would be
        # a constant of the program.
        whole = whole.clone()
        _C._sync(False)
    return _parts(whole)


def _parts(whole: torch.Tensor) -> Iterator[torch.Tensor]:
    count = whole.shape[0]
    if count <= _FAN:
        yield from whole.unbind(0)
        return
    for part in whole.split(-(-count // _FAN)):
        yield from _parts(part)


def gather(parts: list[torch.Tensor]) -> torch.Tensor:
    """Stack many tensors along a new dimension 0, in a tree of concatenations."""
    level = [torch.stack(parts[i : i + _FAN]) for i in range(0, len(parts), _FAN)]
    while len(level) > 1:
        level = [torch.cat(level[i : i + _FAN]) for i in range(0, len(level), _FAN)]
    return level[0]
