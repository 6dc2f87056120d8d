"""Best-fit placement of regions that are taken and given back in the order of the kernels."""

from __future__ import annotations

from bisect import bisect_left, insort

ALIGNMENT = 64
"""Bytes: every region starts at a multiple of this."""


class Arena:
    """Offsets of regions in one block of memory; ``size`` is what they need together, in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._by_size: list[tuple[int, int]] = []  # free (bytes, offset), sorted
        self._starts: dict[int, int] = {}  # free offset -> bytes
        self._ends: dict[int, int] = {}  # end of a free hole -> its offset

    def take(self, count: int) -> int:
        """The offset of a new region of ``count`` bytes: the smallest hole that fits, else the end."""
        need = max(ALIGNMENT, -(-count // ALIGNMENT) * ALIGNMENT)
        place = bisect_left(self._by_size, (need, 0))
        if place < len(self._by_size):
            size, offset = self._by_size[place]
            self._remove(offset, size)
        else:
            # A hole that reaches the end grows instead of being left behind.
            offset = self._ends.get(self.size, self.size)
            size = need
            if offset < self.size:
                self._remove(offset, self.size - offset)
            self.size = offset + need
        if size > need:
            self._insert(offset + need, size - need)
        return offset

    def give(self, offset: int, count: int) -> None:
        """Returns a region."""
        size = max(ALIGNMENT, -(-count // ALIGNMENT) * ALIGNMENT)
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
        insort(self._by_size, (size, offset))
        self._starts[offset] = size
        self._ends[offset + size] = offset

    def _remove(self, offset: int, size: int) -> None:
        del self._by_size[bisect_left(self._by_size, (size, offset))]
        del self._starts[offset]
        del self._ends[offset + size]
