"""Best-fit placement of regions that are taken and given back in the order of the kernels."""

from __future__ import annotations

from bisect import bisect_left, insort

from ftm_backend.symbolic import (
    PartialOrder,
    SymInt,
    ceildiv,
    size_hint,
    statically_known_equal,
    statically_known_nonnegative,
)
from ftm_backend.target.element_types import MEMORY_ALIGNMENT


def region(count: int) -> int:
    """Bytes of the region of a buffer of ``count`` bytes."""
    rounded = ceildiv(count, MEMORY_ALIGNMENT) * MEMORY_ALIGNMENT
    return (
        rounded
        if statically_known_nonnegative(rounded - MEMORY_ALIGNMENT)
        else max(MEMORY_ALIGNMENT, rounded)
    )


class Arena:
    """Offsets of regions in one block of memory; ``size`` is what they need together, in bytes.

    Where counts are sizes a hole is taken only if it is large enough for all their values.
    """

    def __init__(self) -> None:
        self.size = 0
        self._by_size: list[tuple[int, int]] = []  # free (bytes, offset), sorted
        self._starts: dict[int, int] = {}  # free offset -> bytes
        self._ends: dict[int, int] = {}  # end of a free hole -> its offset
        # free (bytes, offset) of which the bytes are a size
        self._general: list[tuple[int, int]] = []
        self._order = PartialOrder()  # of bytes of holes and of regions

    def take(self, count: int) -> int:
        """The offset of a new region of ``count`` bytes: the smallest hole that fits, else the
        end."""
        need = region(count)
        found = self._hole(need)
        if found is not None:
            size, offset = found
            self._remove(offset, size)
        else:
            # A hole that reaches the end grows instead of being left behind.
            offset = self._ends.get(self.size, self.size)
            size = need
            if not statically_known_nonnegative(need - self.size + offset):
                offset = self.size
            if not statically_known_equal(offset, self.size):
                self._remove(offset, self.size - offset)
            self.size = offset + need
        if not statically_known_equal(size, need):
            self._insert(offset + need, size - need)
        return offset

    def _hole(self, need: int) -> tuple[int, int] | None:
        """Bytes and offset of the smallest hole that is surely large enough."""
        if not isinstance(need, SymInt):
            place = bisect_left(self._by_size, need, key=lambda hole: hole[0])
            if place < len(self._by_size):
                return self._by_size[place]
        number = self._order.number(need)
        large = [
            hole for hole in self._general if self._order.is_ge(self._order.number(hole[0]), number)
        ]
        return min(large, key=lambda hole: size_hint(hole[0]), default=None)

    def give(self, offset: int, count: int) -> None:
        """Returns a region."""
        size = region(count)
        after = self._starts.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        before = self._ends.get(offset)
        if before is not None:
            length = self._starts[before]
            self._remove(before, length)
            offset, size = before, size + length
        self._insert(offset, size)

    def _insert(self, offset: int, size: int) -> None:
        if isinstance(size, SymInt):
            self._general.append((size, offset))
        else:
            insort(self._by_size, (size, offset), key=_order)
        self._starts[offset] = size
        self._ends[offset + size] = offset

    def _remove(self, offset: int, size: int) -> None:
        if isinstance(size, SymInt):
            self._general = [
                hole for hole in self._general if hole[1] is not offset and hole[1] != offset
            ]
        else:
            del self._by_size[bisect_left(self._by_size, _order((size, offset)), key=_order)]
        del self._starts[offset]
        del self._ends[offset + size]


def _order(hole: tuple[int, int]) -> tuple[int, int]:
    return hole[0], size_hint(hole[1])
