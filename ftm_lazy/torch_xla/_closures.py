"""Step closures: queued by `add_step_closure`, run after the step's launch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ftm_lazy.torch_xla.utils.closures import AsyncClosureHandler

__all__ = ["add", "run"]

_queued = threading.local()
_handler: AsyncClosureHandler | None = None


def add(closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False) -> None:
    """Queue ``closure(*args)`` on this thread.

    Args:
        closure: The function.
        args: Its arguments.
        run_async: Run it on another thread, concurrently with the next steps.
    """
    name = "asynchronous" if run_async else "synchronous"
    if not hasattr(_queued, name):
        setattr(_queued, name, [])
    getattr(_queued, name).append(lambda: closure(*args))


def run() -> None:
    """Run this thread's queued closures, in order."""
    global _handler
    asynchronous = getattr(_queued, "asynchronous", None)
    synchronous = getattr(_queued, "synchronous", None)
    if asynchronous:
        _queued.asynchronous = []
        _handler = _handler or AsyncClosureHandler()
        _handler.run_all(asynchronous)
    if synchronous:
        _queued.synchronous = []
        for closure in synchronous:
            closure()
