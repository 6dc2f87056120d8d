"""Analysis: which sizes are provably never less than which others.

A proof takes polynomial arithmetic, and placing memory regions needs thousands of them. Results are
therefore cached and closed under transitivity: a size is never less than anything below its
predecessors.
"""

from __future__ import annotations

from ftm_backend.symbolic.specialize import statically_known_ge


class PartialOrder:
    """A cache of proven ``>=`` relations between sizes, which are numbered on first use."""

    def __init__(self) -> None:
        """Create an empty order."""
        self._numbers: dict[str, int] = {}
        self._sizes: list[int] = []
        self._lower: list[int] = []  # by size, a bit mask of the sizes that it is never less than
        self._unproved: set[tuple[int, int]] = set()

    def number(self, size: int) -> int:
        """Return the number of a size, which `note` and `statically_known_ge` take."""
        number = self._numbers.setdefault(str(size), len(self._sizes))
        if number == len(self._sizes):
            self._sizes.append(size)
            self._lower.append(1 << number)
        return number

    def note(self, high: int, low: int) -> None:
        """Record that `high` is never less than `low`."""
        self._lower[high] |= self._lower[low]

    def is_ge(self, high: int, low: int) -> bool:
        """Whether `high` is provably never less than `low`."""
        if self._lower[high] >> low & 1:
            return True
        if (high, low) in self._unproved:
            return False
        if not statically_known_ge(self._sizes[high], self._sizes[low]):
            self._unproved.add((high, low))
            return False
        self.note(high, low)
        return True
