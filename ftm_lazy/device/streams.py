"""`torch.ftm.Stream`, `torch.ftm.Event` and their functions, for programs with several streams.

Each device has one stream: everything runs in the order in which it was recorded. So waiting for
another stream's event does nothing, and a timing event first runs all earlier operations.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch

from ftm_lazy.device.device_index import index_of
from ftm_lazy.device.device_name import NAME


class _OfDevice(type):
    """Metaclass whose `isinstance` accepts PyTorch's own streams and events of device ftm."""

    def __instancecheck__(cls, instance: torch.Stream | torch.Event) -> bool:
        of_torch: bool = isinstance(instance, cls.__mro__[1])
        return of_torch and instance.device.type == NAME


class Stream(torch.Stream, metaclass=_OfDevice):
    """The device's only stream: `torch.Stream` with ``device="ftm"``.

    Args:
        device: The device, its name or index; None means the current device.
        priority: Accepted for compatibility; has no effect.
    """

    def __new__(
        cls, device: torch.device | str | int | None = None, priority: int = 0
    ) -> torch.Stream:
        """Return the stream as a `torch.Stream`."""
        return torch.Stream(_device(device), priority=priority)


class Event(torch.Event, metaclass=_OfDevice):
    """A point in the stream: `torch.Event` with ``device="ftm"``.

    Args:
        enable_timing: Whether the event records the time, for `elapsed_time`.
        blocking: As of `torch.Event`.
        interprocess: As of `torch.Event`.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        """Create the event as a `torch.Event`."""
        return torch.Event(
            NAME, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )


def _device(device: torch.device | str | int | None) -> torch.device:
    if device is None or isinstance(device, int):
        return torch.device(NAME, index_of(device))
    return torch.device(device)


def current_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """Return the stream on which calls are recorded, which is the only one."""
    return Stream(device)


def default_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """Return the default stream, which is the only one."""
    return Stream(device)


def set_stream(stream: torch.Stream) -> None:
    """Check that `stream` belongs to the device; as the only stream it is already current.

    Args:
        stream: A stream of the device.

    Raises:
        ValueError: The stream belongs to another device.
    """
    if stream.device.type != NAME:
        raise ValueError(f"expected a stream of device {NAME}, but got one of {stream.device}")


class StreamContext(nullcontext[None]):
    """Context manager that makes `stream` the current one; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        super().__init__()
        self.stream = stream
        if stream is not None:
            set_stream(stream)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return `StreamContext(stream)`; the name is `torch.cuda.stream`'s."""
    return StreamContext(stream)
