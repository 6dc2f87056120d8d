"""The device arguments of `torch.ftm`'s functions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TypeAlias

import torch

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME

Device: TypeAlias = torch.device | str | int | None
"""A device argument; None means the current device."""


def requested_count(environ: Mapping[str, str]) -> int:
    """Return the number of devices that the environment asks for.

    ``FTM_DEVICES`` is that number. Without it, a process of torchrun has as many devices as its
    host has processes, so that ``set_device(LOCAL_RANK)`` selects one.

    Args:
        environ: The environment variables.

    Raises:
        ValueError: A variable is not a positive integer.
    """
    text = environ.get("FTM_DEVICES", "").strip()
    if not text and "LOCAL_RANK" in environ:
        text = environ.get("LOCAL_WORLD_SIZE", "")
    count = int(text or 1)
    if not 1 <= count <= 127:
        raise ValueError(f"there can be 1 to 127 devices, not {count}")
    return count


def set_requested_count() -> None:
    """Set the number of devices; `settings` reports an invalid number at the device's first use."""
    with contextlib.suppress(ValueError):
        _C._set_device_count(requested_count(os.environ))


def provide(count: int) -> None:
    """Provide at least `count` devices in this process and those that it starts."""
    if count > device_count():
        _C._set_device_count(count)
        os.environ["FTM_DEVICES"] = str(count)


def device_count() -> int:
    """Return the number of ftm devices; see `requested_count`."""
    return _C._device_count()


def index_of(device: Device) -> int:
    """Return the index of a device.

    Args:
        device: An ftm device, its name or index, or None for the current device.

    Raises:
        ValueError: `device` is of another type.
        RuntimeError: There is no device with this index.
    """
    if device is None:
        return _C._current_device()
    if isinstance(device, int):
        index = device
    else:
        named = torch.device(device)
        if named.type != NAME:
            raise ValueError(f"expected an {NAME} device, but got: {named}")
        index = _C._current_device() if named.index is None else int(named.index)
    count = device_count()
    if not 0 <= index < count:
        there_are = f"is one device, {NAME}:0" if count == 1 else f"are {count} devices"
        raise RuntimeError(f"invalid device ordinal {index}: there {there_are}")
    return index
