"""The devices of this process, of which there is exactly one."""

from __future__ import annotations

import torch

from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_xla import _world

__all__ = ["device", "device_count", "devices", "real_devices"]


def device(index: int | None = None) -> torch.device:
    """Return this process's device.

    Args:
        index: 0 or None.

    Raises:
        IndexError: Another index was given.
    """
    if index not in (None, 0):
        raise IndexError(
            f"Device index {index} out of range in {[str(each) for each in devices()]}"
        )
    return torch.device(NAME, 0)


def devices() -> list[torch.device]:
    """Return the devices of this process, a list of one."""
    return [torch.device(NAME, 0)]


def real_devices() -> list[str]:
    """Return kind and global ordinal of this process's devices, e.g. ``["FTM:0"]``."""
    return [f"FTM:{_world.ordinal()}"]


def device_count() -> int:
    """Return the number of devices of this process, which is 1."""
    return len(devices())
