"""Parts of one value, such as the tokens of each expert: where they begin, and that windows of
other values are of the same parts.

What is computed of each part is put together again in the same order, so places there are sums of
the parts' sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from ftm_backend.ir.trace.trace import TensorType
from ftm_backend.symbolic import SymInt, at_hand

__all__ = ["GroupOffset", "GroupOffsets", "parts_of"]


class GroupOffset(NamedTuple):
    """What a window sees of a part: the dimension along which it is one, its extent there, and the
    window's offset."""

    dimension: int
    extent: int
    offset: int


class GroupOffsets:
    """Parts that are known: by where they begin and end at hand, the same as sizes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def learn(self, extents: Sequence[int]) -> None:
        """Parts that follow one another, if they are sizes."""
        if len(extents) < 2 or not all(isinstance(extent, SymInt) for extent in extents):
            return
        begin = 0
        for extent in extents:
            self._known.setdefault((at_hand(begin), at_hand(extent)), (begin, extent))
            begin = begin + extent

    def seen(self, sizes: Sequence[int], strides: Sequence[int], offset: int) -> GroupOffset | None:
        """The part that a window with these numbers at hand sees; None if it sees none that is
        known."""
        if not self._known or not sizes or type(offset) is not int:
            return None
        dimension = max(range(len(sizes)), key=lambda d: at_hand(strides[d]))
        stride = strides[dimension]
        if type(stride) is not int or not stride or offset % stride:
            return None
        found = self._known.get((offset // stride, at_hand(sizes[dimension])))
        return None if found is None else GroupOffset(dimension, found[1], found[0] * stride)


def parts_of(params: Sequence[TensorType]) -> GroupOffsets:
    """Parameters that differ in their first extent, which is a size, are taken for parts of one
    value, or of several in a row."""
    parts = GroupOffsets()
    sized = (param for param in params if param.shape and isinstance(param.shape[0], SymInt))
    for _, alike in groupby(sized, key=lambda param: (param.dtype, param.shape[1:])):
        extents = [param.shape[0] for param in alike]
        for first in range(len(extents)):
            parts.learn(extents[first:])
    return parts
