"""The devices of this process: one, whatever the number of processes."""

from __future__ import annotations

import torch

from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_xla import _world

__all__ = ["device", "device_count", "devices", "real_devices"]


def device(index: int | None = None) -> torch.device:
    """Return the device; there is one in each process, with index 0.

    Raises IndexError for another index.
    """
    if index not in (None, 0):
        raise IndexError(
            f"Device index {index} out of range in {[str(each) for each in devices()]}"
        )
    return torch.device(NAME, 0)


def devices() -> list[torch.device]:
    """All devices of this process: the one."""
    return [torch.device(NAME, 0)]


def real_devices() -> list[str]:
    """What the devices of this process are and which of the world's they are, such as
    ``["FTM:0"]``."""
    return [f"FTM:{_world.ordinal()}"]


def device_count() -> int:
    """Return the number of devices of this process: 1."""
    return len(devices())
