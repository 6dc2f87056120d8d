"""Best-fit allocation of regions in one block of memory."""

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
    """Return the bytes of the region for a buffer of ``count`` bytes, with alignment."""
    rounded = ceildiv(count, MEMORY_ALIGNMENT) * MEMORY_ALIGNMENT
    return (
        rounded
        if statically_known_nonnegative(rounded - MEMORY_ALIGNMENT)
        else max(MEMORY_ALIGNMENT, rounded)
    )


class Arena:
    """Offsets of regions in one block of memory.

    If byte counts are symbolic, a region goes into a hole only if the hole is large enough for all
    values of the symbols.

    Attributes:
        size: Bytes that all regions need together.
    """

    def __init__(self) -> None:
        """Create an empty arena."""
        self.size = 0
        self._by_size: list[tuple[int, int]] = []  # free (bytes, offset), sorted
        self._starts: dict[int, int] = {}  # free offset -> bytes
        self._ends: dict[int, int] = {}  # end of a free hole -> its offset
        # free (bytes, offset) with symbolic bytes
        self._general: list[tuple[int, int]] = []
        self._order = PartialOrder()  # of bytes of holes and of regions

    def allocate(self, count: int) -> int:
        """Return the offset of a new region: in the smallest hole that fits, else at the end.

        Args:
            count: Bytes of the buffer.
        """
        need = region(count)
        found = self._hole(need)
        if found is not None:
            size, offset = found
            self._remove(offset, size)
        else:
            # a hole at the end grows
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
        """Return bytes and offset of the smallest hole that is large enough; None without one."""
        if not isinstance(need, SymInt):
            place = bisect_left(self._by_size, need, key=lambda hole: hole[0])
            if place < len(self._by_size):
                return self._by_size[place]
        number = self._order.number(need)
        large = [
            hole for hole in self._general if self._order.is_ge(self._order.number(hole[0]), number)
        ]
        return min(large, key=lambda hole: size_hint(hole[0]), default=None)

    def free(self, offset: int, count: int) -> None:
        """Free the region at ``offset`` of a buffer of ``count`` bytes."""
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
