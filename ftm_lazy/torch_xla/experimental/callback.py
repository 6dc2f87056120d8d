"""torch_xla.experimental.callback: callbacks for when a tensor has been computed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from ftm_lazy import _C

__all__ = ["on_ready_callback", "on_ready_event"]


def on_ready_callback(tensor: torch.Tensor, callback: Callable[[torch.Tensor], None]) -> None:
    """Launch all pending operations, and call a function on another thread when they have run.

    Args:
        tensor: The argument of the function.
        callback: The function.
    """
    _C._sync(False)

    def wait() -> None:
        _C._wait()
        callback(tensor)

    threading.Thread(target=wait, name="ftm callback").start()


def on_ready_event(tensor: torch.Tensor) -> threading.Event:
    """Return an event that is set when `on_ready_callback` would call the function."""
    event = threading.Event()
    on_ready_callback(tensor, lambda _: event.set())
    return event
