"""The closures of a step: queued by `add_step_closure`, run when the step has been launched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ftm_lazy.torch_xla.utils.closures import AsyncClosureHandler

__all__ = ["add", "run"]

_queued = threading.local()
_handler: AsyncClosureHandler | None = None


def add(closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False) -> None:
    """Queue ``closure(*args)`` of this thread; `run_async`: to run beside the steps that
    follow."""
    name = "aside" if run_async else "here"
    if not hasattr(_queued, name):
        setattr(_queued, name, [])
    getattr(_queued, name).append(lambda: closure(*args))


def run() -> None:
    """Run what is queued, in its order."""
    global _handler
    aside, here = getattr(_queued, "aside", None), getattr(_queued, "here", None)
    if aside:
        _queued.aside = []
        _handler = _handler or AsyncClosureHandler()
        _handler.run_all(aside)
    if here:
        _queued.here = []
        for closure in here:
            closure()
