"""`torch.ftm.Stream`, `torch.ftm.Event` and what goes with them, for programs that are written for
several streams.

The device has one stream: everything runs in the order in which it was recorded. So waiting for an
event from another stream is right without doing anything, and an event that tells the time first
runs what was recorded before it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from ftm_lazy.device.device_name import NAME

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]


class _OfDevice(type):
    """Makes PyTorch's own objects of device ftm instances of our classes, which only have other
    defaults."""

    def __instancecheck__(cls, instance: Any) -> bool:
        of_torch: bool = isinstance(instance, cls.__mro__[1])
        return of_torch and instance.device.type == NAME


class Stream(torch.Stream, metaclass=_OfDevice):
    """The stream of the device, whatever the priority; `torch.Stream` with ``device="ftm"``."""

    def __new__(
        cls, device: torch.device | str | int | None = None, priority: int = 0
    ) -> torch.Stream:
        return torch.Stream(_device(device), priority=priority)


class Event(torch.Event, metaclass=_OfDevice):
    """A mark on the stream; `torch.Event` with ``device="ftm"``."""

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        return torch.Event(
            NAME, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )


def _device(device: torch.device | str | int | None) -> torch.device:
    if device is None or isinstance(device, int):
        return torch.device(NAME, device or 0)
    return torch.device(device)


def current_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The stream on which calls are recorded: the only one."""
    return Stream(device)


def default_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The stream that is current when nothing else was said: the only one."""
    return Stream(device)


def set_stream(stream: torch.Stream) -> None:
    """Makes `stream` the current one; there is only the one, so this only checks that it is of the
    device.

    Raises ValueError for a stream of another device.
    """
    if stream.device.type != NAME:
        raise ValueError(f"expected a stream of device {NAME}, but got one of {stream.device}")


class StreamContext:
    """Context manager in which `stream` is the current one; None leaves it as it is."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        if stream is not None:
            set_stream(stream)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


def stream(stream: torch.Stream | None) -> StreamContext:
    """`StreamContext`, under the name that `torch.cuda` has for it."""
    return StreamContext(stream)
