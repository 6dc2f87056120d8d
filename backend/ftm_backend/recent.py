"""A mapping that keeps what was used last, up to a size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

V = TypeVar("V")


class Recent(Generic[V]):
    """``most``: sum of the sizes of what is kept; what was not used for longest goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._items: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """The value of ``key``, which was used now."""
        found = self._items.get(key)
        if found is None:
            return None
        self._items.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Keeps ``value``, of ``size``."""
        if key in self._items:
            self._size -= self._items.pop(key)[1]
        self._items[key] = value, size
        self._size += size
        while self._size > self._most:
            _, (_, gone) = self._items.popitem(last=False)
            self._size -= gone

    def clear(self) -> None:
        """Forgets all."""
        self._items.clear()
        self._size = 0

    def __len__(self) -> int:
        return len(self._items)
