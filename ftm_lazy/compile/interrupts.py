"""Detection of exceptions that a signal handler raised, e.g. a user's timeout via SIGALRM.

Such an exception is not an error of the code that it interrupted.
"""

from __future__ import annotations

import functools
import signal
import traceback
from types import CodeType

__all__ = ["is_from_signal_handler"]


def is_from_signal_handler(error: Exception) -> bool:
    """Return whether the traceback of `error` passes through a signal handler."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _code(handler: object) -> CodeType | None:
    """Return the code object of a Python callable; None for other values."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):
        return None
    if not hasattr(handler, "__code__") and not hasattr(handler, "__func__"):
        handler = getattr(type(handler), "__call__", None)  # noqa: B004 (the method itself is wanted)
    return getattr(getattr(handler, "__func__", handler), "__code__", None)
