"""`torch.ftm.nvtx`: named ranges in a profile, with the interface of `torch.cuda.nvtx`.

A range is a `torch.profiler.record_function`, so `torch.profiler` shows it with the operations
recorded in it. Programs run after their operations are recorded: call `torch.ftm.synchronize` at
the end of a range that should contain the run.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch.profiler import record_function


class _Stack(threading.local):
    def __init__(self) -> None:
        self.ranges: list[record_function] = []


_stack = _Stack()
_started: dict[int, record_function] = {}
_handles = itertools.count(1)


def range_push(msg: str) -> int:
    """Begin a range nested in this thread's open ranges.

    Args:
        msg: The range's name.

    Returns:
        The range's depth, from 0.
    """
    _stack.ranges.append(_begin(msg))
    return len(_stack.ranges) - 1


def range_pop() -> int:
    """End the innermost range of this thread.

    Returns:
        The range's depth, or -2 (NVTX's error code) if no range is open.
    """
    if not _stack.ranges:
        return -2
    _end(_stack.ranges.pop())
    return len(_stack.ranges)


def range_start(msg: str) -> int:
    """Begin a range that may overlap others.

    Args:
        msg: The range's name.

    Returns:
        A handle for `range_end`.
    """
    handle = next(_handles)
    _started[handle] = _begin(msg)
    return handle


def range_end(range_id: int) -> None:
    """End a range of `range_start`, from any thread.

    Args:
        range_id: The handle that `range_start` returned.

    Raises:
        KeyError: No open range has this handle.
    """
    _end(_started.pop(range_id))


def mark(msg: str) -> None:
    """Mark a point in time with an empty range.

    Args:
        msg: The mark's name.
    """
    _end(_begin(msg))


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Open a range as a context manager or decorator.

    Args:
        msg: The range's name, formatted as ``msg.format(*args, **kwargs)``.
        *args: Positional arguments of the format.
        **kwargs: Keyword arguments of the format.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


def _begin(msg: str) -> record_function:
    return record_function(msg).__enter__()


def _end(begun: record_function) -> None:
    begun.__exit__(None, None, None)
