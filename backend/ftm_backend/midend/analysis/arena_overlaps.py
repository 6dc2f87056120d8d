"""Analysis: which earlier buffers of the arena overlap a new one, so that it must wait for them.

Offsets of dynamic-shape programs are polynomials, which only have a partial order
(`ftm_backend.symbolic.PartialOrder`).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from ftm_backend.symbolic import PartialOrder, SymInt, size_hint

__all__ = ["ArenaReuse"]

Owner = TypeVar("Owner")


class ArenaReuse(Generic[Owner]):
    """Maps each byte of the arena to its last owner."""

    def __init__(self) -> None:
        """Start with an arena without owners."""
        self._starts: list[int] = []
        self._spans: list[tuple[int, Owner]] = []  # end, owner; parallel to _starts
        self._symbolic: _SymbolicReuse[Owner] | None = None

    def take(self, start: int, end: int, owner: Owner) -> list[Owner]:
        """Set the owner of the bytes from ``start`` to ``end``.

        Returns:
            The previous owners of any of these bytes. With symbolic offsets, all possible ones.
        """
        if self._symbolic is None and not isinstance(start, SymInt) and not isinstance(end, SymInt):
            return self._take(start, end, owner)
        if self._symbolic is None:
            self._symbolic = _SymbolicReuse()
            for begin, (stop, earlier) in zip(self._starts, self._spans, strict=True):
                self._symbolic.take(begin, stop, earlier)
        return self._symbolic.take(start, end, owner)

    def _take(self, start: int, end: int, owner: Owner) -> list[Owner]:
        low = bisect_left(self._starts, start)
        if low and self._spans[low - 1][0] > start:
            low -= 1
        high = low
        kept: list[tuple[int, tuple[int, Owner]]] = []
        before = []
        while high < len(self._starts) and self._starts[high] < end:
            begin, (stop, earlier) = self._starts[high], self._spans[high]
            before.append(earlier)
            if begin < start:
                kept.append((begin, (start, earlier)))
            if stop > end:
                kept.append((end, (stop, earlier)))
            high += 1
        pieces = sorted([*kept, (start, (end, owner))], key=lambda piece: piece[0])
        self._starts[low:high] = [piece[0] for piece in pieces]
        self._spans[low:high] = [piece[1] for piece in pieces]
        return before


@dataclass(eq=False, slots=True)
class _Region(Generic[Owner]):
    """A range of bytes: its ends in the partial order, and the hints of both."""

    begin: int
    end: int
    first: int
    last: int
    owner: Owner


class _SymbolicReuse(Generic[Owner]):
    """The same for symbolic offsets: returns all owners that may overlap."""

    def __init__(self) -> None:
        self._order = PartialOrder()
        self._regions: list[_Region[Owner]] = []

    def take(self, start: int, end: int, owner: Owner) -> list[Owner]:
        """See `ArenaReuse.take`."""
        order = self._order
        new = _Region(
            order.number(start), order.number(end), size_hint(start), size_hint(end), owner
        )
        order.note(new.end, new.begin)
        overlapping: list[_Region[Owner]] = []
        # Nearest region first: it orders the ones before it.
        for region in sorted(self._regions, key=attrgetter("last"), reverse=True):
            if region.last > new.first or not order.is_ge(new.begin, region.end):
                overlapping.append(region)
        for region in sorted(overlapping, key=attrgetter("first")):
            if region.first >= new.last and order.is_ge(region.begin, new.end):
                overlapping.remove(region)
        gone = {id(r) for r in overlapping if self._covers(new, r)}
        self._regions = [new, *(region for region in self._regions if id(region) not in gone)]
        return [region.owner for region in overlapping]

    def _covers(self, new: _Region[Owner], old: _Region[Owner]) -> bool:
        """Whether the new region certainly covers an old one."""
        if old.first < new.first or old.last > new.last:
            return False
        return self._order.is_ge(old.begin, new.begin) and self._order.is_ge(new.end, old.end)
