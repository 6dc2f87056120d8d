"""torch_xla.utils.keyd_queue: bounded queues between threads that either end can close."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["KeydQueue", "Queue", "QueueBase"]

T = TypeVar("T")


class QueueBase:
    """Base class of the queues: the size limit and the closing.

    Args:
        maxsize: Number of items from which `put` waits.
    """

    def __init__(self, maxsize: int = 1024) -> None:
        self._maxsize = maxsize
        lock = threading.Lock()
        self._changed, self._space = threading.Condition(lock), threading.Condition(lock)
        self._no_puts = self._no_gets = False

    def max_size(self) -> int:
        """Return the number of items from which `put` waits."""
        return self._maxsize

    def close(self) -> None:
        """End reading: `put` drops its item, `get` returns the remaining items, then None."""
        with self._changed:
            self._no_gets = self._no_puts = True
            self._changed.notify_all()
            self._space.notify_all()

    def close_write(self) -> None:
        """End writing: `get` returns the remaining items, then None."""
        with self._changed:
            self._no_puts = True
            self._changed.notify_all()


class Queue(QueueBase, Generic[T]):
    """First-in, first-out queue."""

    def __init__(self, maxsize: int = 1024) -> None:
        super().__init__(maxsize)
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        """Wait for space and add `item`; drop it if the queue is closed."""
        with self._changed:
            self._space.wait_for(lambda: len(self._items) < self._maxsize or self._no_gets)
            if not self._no_gets:
                self._items.append(item)
                self._changed.notify()

    def get(self) -> T | None:
        """Wait for an item and return it; None at the end.

        A waiting `put` is woken when half of the queue is free, so that it adds several items at
        once: waking a thread for each item costs more than copying a small batch.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._no_puts)
            item = self._items.popleft() if self._items else None
            if len(self._items) <= self._maxsize // 2:
                self._space.notify_all()
            return item


class KeydQueue(QueueBase, Generic[T]):
    """Queue whose items are retrieved by key."""

    def __init__(self, maxsize: int = 1024) -> None:
        super().__init__(maxsize)
        self._items: dict[Hashable, T] = {}
        self._wanted: list[Hashable] = []

    def put(self, key: Hashable, item: T) -> None:
        """Add `item` when there is space or a `get` waits for its key; drop it if closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._items) < self._maxsize or key in self._wanted or self._no_gets
            )
            if not self._no_gets:
                self._items[key] = item
                self._changed.notify_all()

    def get(self, key: Hashable) -> T | None:
        """Wait for the item of `key` and return it; None at the end."""
        with self._changed:
            self._wanted.append(key)
            self._changed.notify_all()
            self._changed.wait_for(lambda: key in self._items or self._no_puts)
            self._wanted.remove(key)
            item = self._items.pop(key, None)
            self._changed.notify_all()
            return item
