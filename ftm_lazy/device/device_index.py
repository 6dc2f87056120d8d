"""The device arguments of `torch.ftm`'s functions."""

from __future__ import annotations

from typing import TypeAlias

import torch

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME

__all__ = ["Device", "device_count", "index_of"]

Device: TypeAlias = torch.device | str | int | None
"""A device argument; None means the current device."""


def device_count() -> int:
    """Return the number of ftm devices, which is 1 for any number of cores."""
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
        return 0
    if isinstance(device, int):
        index = device
    else:
        named = torch.device(device)
        if named.type != NAME:
            raise ValueError(f"expected an {NAME} device, but got: {named}")
        index = 0 if named.index is None else int(named.index)
    if not 0 <= index < device_count():
        raise RuntimeError(
            f"{NAME} has {device_count()} device, with index 0; there is no device {index}"
        )
    return index
