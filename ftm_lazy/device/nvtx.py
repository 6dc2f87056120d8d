"""`torch.ftm.nvtx`: named ranges in a profile, as `torch.cuda.nvtx` has them.

Ranges are `torch.profiler.record_function`'s, so `torch.profiler` shows them beside the operations
that were recorded in them. Programs run later than their operations are recorded; call
`torch.ftm.synchronize` at the end of a range that is to contain the run.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.ranges: list[record_function] = []


_stack = _Stack()
_started: dict[int, record_function] = {}
_handles = itertools.count(1)


def range_push(msg: str) -> int:
    """Begins a range inside those of this thread; returns its depth, from 0."""
    _stack.ranges.append(_begin(msg))
    return len(_stack.ranges) - 1


def range_pop() -> int:
    """Ends the range that this thread began last; returns its depth, or -2 as NVTX does if there is
    none."""
    if not _stack.ranges:
        return -2
    _end(_stack.ranges.pop())
    return len(_stack.ranges)


def range_start(msg: str) -> int:
    """Begins a range that need not be nested; returns a handle for `range_end`."""
    handle = next(_handles)
    _started[handle] = _begin(msg)
    return handle


def range_end(range_id: int) -> None:
    """Ends a range that `range_start` began, on any thread. Raises KeyError for another handle."""
    _end(_started.pop(range_id))


def mark(msg: str) -> None:
    """Shows a moment as a range of no length."""
    _end(_begin(msg))


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Context manager and decorator of a range; further arguments are for ``msg.format``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


def _begin(msg: str) -> record_function:
    return record_function(msg).__enter__()


def _end(begun: record_function) -> None:
    begun.__exit__(None, None, None)
