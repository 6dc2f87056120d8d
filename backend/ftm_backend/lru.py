"""A least-recently-used cache that is bounded by size, by number of entries and by age."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["KEPT_PROGRAMS", "PROGRAMS", "LRUCache", "ProgramClock"]

V = TypeVar("V")

KEPT_PROGRAMS = 256
"""The compiler forgets what none of its last 256 programs used: as many as the device keeps
(``FTM_PROGRAM_LIMIT``)."""


class ProgramClock:
    """Counts the programs that this process has compiled: the time by which caches of the compiler
    age."""

    def __init__(self) -> None:
        self.now = 0

    def tick(self) -> None:
        """Another program begins."""
        self.now += 1


PROGRAMS = ProgramClock()


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    size: int
    last_use: int


class LRUCache(Generic[V]):
    """A mapping that drops the least recently used entries first.

    Args:
        most: the largest sum of the sizes of all entries.
        most_entries: the largest number of entries; None for any number.
        kept_programs: entries that no program used for so long are dropped; None to keep them.
        clock: counts the programs.
    """

    def __init__(
        self,
        most: int,
        most_entries: int | None = None,
        kept_programs: int | None = None,
        clock: ProgramClock = PROGRAMS,
    ) -> None:
        self._most = most
        self._most_entries = most_entries
        self._kept_programs = kept_programs
        self._clock = clock
        self._size = 0
        self._entries: OrderedDict[Hashable, _Entry[V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """The value of ``key``, which becomes the most recently used; None if there is none."""
        found = self._entries.get(key)
        if found is None:
            return None
        found.last_use = self._clock.now
        self._entries.move_to_end(key)
        return found.value

    def put(self, key: Hashable, value: V, size: int) -> list[V]:
        """Keeps ``value``, of ``size``.  Returns the values of other keys that were dropped."""
        self.pop(key)
        self._entries[key] = _Entry(value, size, self._clock.now)
        self._size += size
        dropped = []
        while self._entries and self._is_full():
            _, gone = self._entries.popitem(last=False)
            self._size -= gone.size
            if gone.value is not value:
                dropped.append(gone.value)
        return dropped

    def pop(self, key: Hashable) -> V | None:
        """Forgets ``key``.  Returns its value; None if there was none."""
        gone = self._entries.pop(key, None)
        if gone is None:
            return None
        self._size -= gone.size
        return gone.value

    def clear(self) -> None:
        """Forgets all entries."""
        self._entries.clear()
        self._size = 0

    def _is_full(self) -> bool:
        """Whether the least recently used entry has to go."""
        if self._size > self._most or (
            self._most_entries is not None and len(self._entries) > self._most_entries
        ):
            return True
        oldest = next(iter(self._entries.values()))
        return (
            self._kept_programs is not None
            and self._clock.now - oldest.last_use >= self._kept_programs
        )
