"""torch_xla.utils.keyd_queue: bounded queues between threads that can be closed from either end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from typing import Any

__all__ = ["KeydQueue", "Queue", "QueueBase"]


class QueueBase:
    """What both queues share: `maxsize` items, and ends that close."""

    def __init__(self, maxsize: int = 1024) -> None:
        self._maxsize = maxsize
        lock = threading.Lock()
        self._changed, self._space = threading.Condition(lock), threading.Condition(lock)
        self._items: Any = ()
        self._no_puts = self._no_gets = False

    def max_size(self) -> int:
        """Items that it holds before a put waits."""
        return self._maxsize

    def close(self) -> None:
        """Nobody gets any more: puts do not wait, gets return what is there, then None."""
        with self._changed:
            self._no_gets = self._no_puts = True
            self._changed.notify_all()
            self._space.notify_all()

    def close_write(self) -> None:
        """Nobody puts any more: gets return what is there, then None."""
        with self._changed:
            self._no_puts = True
            self._changed.notify_all()


class Queue(QueueBase):
    """First in, first out."""

    def __init__(self, maxsize: int = 1024) -> None:
        super().__init__(maxsize)
        self._items = deque()

    def put(self, item: object) -> None:
        """Add `item` when there is space; drops it if the queue is closed."""
        with self._changed:
            self._space.wait_for(lambda: len(self._items) < self._maxsize or self._no_gets)
            if not self._no_gets:
                self._items.append(item)
                self._changed.notify()

    def get(self) -> Any:
        """Return the next item when there is one; None at the end.

        Who waits for space hears of it when half of the queue is free, so that it puts several
        items at a time: a thread that is woken for each of them costs more than to move a small
        batch.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._no_puts)
            item = self._items.popleft() if self._items else None
            if len(self._items) <= self._maxsize // 2:
                self._space.notify_all()
            return item


class KeydQueue(QueueBase):
    """Items that are got by a key."""

    def __init__(self, maxsize: int = 1024) -> None:
        super().__init__(maxsize)
        self._items: dict[Hashable, Any] = {}
        self._wanted: list[Hashable] = []

    def put(self, key: Hashable, item: object) -> None:
        """Add `item` when there is space or somebody waits for it; drops it if the queue is
        closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._items) < self._maxsize or key in self._wanted or self._no_gets
            )
            if not self._no_gets:
                self._items[key] = item
                self._changed.notify_all()

    def get(self, key: Hashable) -> Any:
        """Return the item of `key` when there is one; None at the end."""
        with self._changed:
            self._wanted.append(key)
            self._changed.notify_all()
            self._changed.wait_for(lambda: key in self._items or self._no_puts)
            self._wanted.remove(key)
            item = self._items.pop(key, None)
            self._changed.notify_all()
            return item
