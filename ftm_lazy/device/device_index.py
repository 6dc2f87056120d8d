"""How functions of `torch.ftm` take a device."""

from __future__ import annotations

from typing import TypeAlias

import torch

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME

__all__ = ["Device", "device_count", "index_of"]

Device: TypeAlias = torch.device | str | int | None
"""How functions take a device: None means the current one."""


def device_count() -> int:
    """The number of ftm devices: 1, whatever the number of its cores."""
    return _C._device_count()


def index_of(device: Device) -> int:
    """The index of `device`; raises for another kind of device and for an index that does not
    exist."""
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
