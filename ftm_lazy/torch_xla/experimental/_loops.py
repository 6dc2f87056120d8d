"""Long loops over tensors, in pieces of some operations: a program for each piece, the same for all
of them.

A loop of 2,048 steps recorded as one trace would be compiled whole. Here the trace is cut between
pieces, forward by a call, backward by a hook where the gradient of what is carried from one piece
to the next is known. Pieces have the same number of steps, so that all are one program; gradients
of what the steps share are summed piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ftm_lazy import _C, metrics

__all__ = ["Pieces", "gather", "slices"]

_OPERATIONS = 256
"""What a piece may hold: enough that launching does not matter, few enough to compile at once."""

_FAN = 64  # operands of one concatenation


class Pieces:
    """Counts the steps of a loop, and cuts after each piece."""

    def __init__(self) -> None:
        self._before = metrics.counters()["ops_traced"]
        self._steps = 0
        self.length = 0
        """Steps of a piece; 0 until the first step has ended."""

    def end_of_step(self, carried: list[torch.Tensor]) -> None:
        """A step has ended that hands `carried` to the next one."""
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


def slices(whole: torch.Tensor) -> Iterator[torch.Tensor]:
    """`whole` along dim 0. The gradient is put together again in few concatenations of few
    operands."""
    if whole.shape[0] > _FAN:
        # Of what is in memory and was written once, a slice is a parameter of the piece's program,
        # wherever it begins; of a tensor that was written over (randn, copy_), its place would be
        # part of the program.
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
    """`torch.stack` of many."""
    level = [torch.stack(parts[i : i + _FAN]) for i in range(0, len(parts), _FAN)]
    while len(level) > 1:
        level = [torch.cat(level[i : i + _FAN]) for i in range(0, len(level), _FAN)]
    return level[0]
