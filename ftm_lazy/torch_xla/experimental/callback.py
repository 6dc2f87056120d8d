"""torch_xla.experimental.callback: something to do once a tensor's value is there."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from ftm_lazy import _C

__all__ = ["on_ready_callback", "on_ready_event"]


def on_ready_callback(tensor: torch.Tensor, callback: Callable[[torch.Tensor], None]) -> None:
    """Launch what is recorded, and calls ``callback(tensor)`` on a thread of its own once all of
    it has run."""
    _C._sync(False)

    def wait() -> None:
        _C._wait()
        callback(tensor)

    threading.Thread(target=wait, name="ftm callback").start()


def on_ready_event(tensor: torch.Tensor) -> threading.Event:
    """Return an event that is set when `on_ready_callback` would call."""
    event = threading.Event()
    on_ready_callback(tensor, lambda _: event.set())
    return event
