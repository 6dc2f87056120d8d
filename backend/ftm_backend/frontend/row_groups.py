"""Analysis: consecutive groups of rows in a tensor, such as the tokens of each expert.

Groups of symbolic sizes that are concatenated begin at sums of these sizes. A window whose offset
and extent match a group's hints therefore gets the group's symbolic offset and extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from ftm_backend.ir.trace.trace import TensorType
from ftm_backend.symbolic import SymInt, size_hint


class GroupOffset(NamedTuple):
    """The group that a window shows.

    Attributes:
        dimension: The dimension along which the groups are concatenated.
        extent: The group's extent in it.
        offset: The window's offset.
    """

    dimension: int
    extent: int
    offset: int


class GroupOffsets:
    """Groups by the hints of their offset and extent."""

    def __init__(self) -> None:
        """Start without groups."""
        self._groups: dict[tuple[int, int], tuple[int, int]] = {}

    def learn(self, extents: Sequence[int]) -> None:
        """Register consecutive groups of these extents, if all extents are symbolic."""
        if len(extents) < 2 or not all(isinstance(extent, SymInt) for extent in extents):
            return
        begin = 0
        for extent in extents:
            self._groups.setdefault((size_hint(begin), size_hint(extent)), (begin, extent))
            begin = begin + extent

    def find(self, sizes: Sequence[int], strides: Sequence[int], offset: int) -> GroupOffset | None:
        """Return the group that a window with these numbers shows, or None."""
        if not self._groups or not sizes or type(offset) is not int:
            return None
        dimension = max(range(len(sizes)), key=lambda d: size_hint(strides[d]))
        stride = strides[dimension]
        if type(stride) is not int or not stride or offset % stride:
            return None
        group = self._groups.get((offset // stride, size_hint(sizes[dimension])))
        return None if group is None else GroupOffset(dimension, group[1], group[0] * stride)


def groups_of_params(params: Sequence[TensorType]) -> GroupOffsets:
    """Register groups of consecutive parameters that differ only in a symbolic first extent.

    They may begin at any of these parameters.
    """
    groups = GroupOffsets()
    sized = (param for param in params if param.shape and isinstance(param.shape[0], SymInt))
    for _, group in groupby(sized, key=lambda param: (param.dtype, param.shape[1:])):
        extents = [param.shape[0] for param in group]
        for first in range(len(extents)):
            groups.learn(extents[first:])
    return groups
