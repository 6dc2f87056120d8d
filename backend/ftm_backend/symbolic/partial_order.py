"""Which of some sizes are never less than which, as far as that can be proved.

A proof takes arithmetic on polynomials, and who places regions of memory asks for thousands. So
proofs are kept, and follow from one another: what lies above a size lies above all that this one
lies above.
"""

from __future__ import annotations

from ftm_backend.symbolic.specialize import never_less

__all__ = ["PartialOrder"]


class PartialOrder:
    """Sizes by numbers of its own; each proof is looked for once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sizes: list[int] = []
        self._lower: list[int] = []  # of each size, those that it is never less than, one bit each
        self._unproved: set[tuple[int, int]] = set()

    def number(self, size: int) -> int:
        """The number of a size here."""
        number = self._numbers.setdefault(str(size), len(self._sizes))
        if number == len(self._sizes):
            self._sizes.append(size)
            self._lower.append(1 << number)
        return number

    def note(self, high: int, low: int) -> None:
        """``high`` is never less than ``low``, nor than what that is never less than."""
        self._lower[high] |= self._lower[low]

    def never_less(self, high: int, low: int) -> bool:
        """Whether that is so."""
        if self._lower[high] >> low & 1:
            return True
        if (high, low) in self._unproved:
            return False
        if not never_less(self._sizes[high], self._sizes[low]):
            self._unproved.add((high, low))
            return False
        self.note(high, low)
        return True
