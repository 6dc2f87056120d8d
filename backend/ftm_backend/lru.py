"""`LRUCache`: a least-recently-used cache bounded by total size, number of entries, and age."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")

KEPT_PROGRAMS = 256
"""Age limit of the compiler's caches, in programs: as many as the device keeps
(``FTM_PROGRAM_LIMIT``)."""


class ProgramClock:
    """Counts compiled programs; the caches measure age by it."""

    def __init__(self) -> None:
        """Start at 0."""
        self.now = 0

    def tick(self) -> None:
        """Count a program."""
        self.now += 1


PROGRAMS = ProgramClock()


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    size: int
    last_use: int


class LRUCache(Generic[V]):
    """A mapping that evicts the least recently used entries first.

    Args:
        most: Maximum total size of the entries.
        most_entries: Maximum number of entries; None for any number.
        kept_programs: Evict entries unused for this many programs; None to keep them.
        clock: The clock that counts programs.
    """

    def __init__(
        self,
        most: int,
        most_entries: int | None = None,
        kept_programs: int | None = None,
        clock: ProgramClock = PROGRAMS,
    ) -> None:
        """Create an empty cache; see the class for the arguments."""
        self._most = most
        self._most_entries = most_entries
        self._kept_programs = kept_programs
        self._clock = clock
        self._size = 0
        self._entries: OrderedDict[Hashable, _Entry[V]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return the value of `key` and mark it as most recently used; None if there is none."""
        found = self._entries.get(key)
        if found is None:
            return None
        found.last_use = self._clock.now
        with contextlib.suppress(KeyError):  # another thread has evicted it meanwhile
            self._entries.move_to_end(key)
        return found.value

    def put(self, key: Hashable, value: V, size: int) -> list[V]:
        """Store `value` under `key`.

        Returns:
            The evicted values of other keys.
        """
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
        """Remove `key` and return its value; None if there was none."""
        gone = self._entries.pop(key, None)
        if gone is None:
            return None
        self._size -= gone.size
        return gone.value

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._size = 0

    def _is_full(self) -> bool:
        """Whether the least recently used entry must be evicted."""
        if self._size > self._most or (
            self._most_entries is not None and len(self._entries) > self._most_entries
        ):
            return True
        oldest = next(iter(self._entries.values()))
        return (
            self._kept_programs is not None
            and self._clock.now - oldest.last_use >= self._kept_programs
        )
