"""Step closures: queued by `add_step_closure`, run after the step's launch."""

from __future__ import annotations

from collections.abc import Callable

from ftm_lazy import _C
from ftm_lazy.torch_xla.utils.closures import AsyncClosureHandler

__all__ = ["add", "run"]

_queued: dict[int, tuple[list[Callable[[], object]], list[Callable[[], object]]]] = {}
"""Synchronous and asynchronous closures of each thread of the program.

A forward pass that a checkpoint computes again runs on autograd's thread. Its closures belong to
the thread that called `backward`, as its operations do.
"""

_handler: AsyncClosureHandler | None = None


def add(
    closure: Callable[..., object], args: tuple[object, ...] = (), run_async: bool = False
) -> None:
    """Queue ``closure(*args)`` for the thread's next `run`.

    Args:
        closure: The function.
        args: Its arguments.
        run_async: Run it on another thread, concurrently with the next steps.
    """
    queues = _queued.setdefault(_C._recording_thread(), ([], []))
    queues[run_async].append(lambda: closure(*args))


def run() -> None:
    """Run the thread's queued closures, in order."""
    global _handler
    synchronous, asynchronous = _queued.pop(_C._recording_thread(), ([], []))
    if asynchronous:
        _handler = _handler or AsyncClosureHandler()
        _handler.run_all(asynchronous)
    for closure in synchronous:
        closure()
