"""DLPack export of the device's tensors.

`torch.from_dlpack(tensor)` returns a tensor on ftm that shares the storage; its DLPack device is
"external" (`kDLExtDev`). `numpy.from_dlpack(tensor, device="cpu")` returns a read-only array that
shares the memory. A consumer that wants to write gets a copy, and so does one that speaks DLPack
before 1.0, because these versions cannot mark memory as read-only.
"""

from __future__ import annotations

import torch
from torch.utils.dlpack import DLDeviceType

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME

CPU = (int(DLDeviceType.kDLCPU), 0)


def install() -> None:
    """Add the two methods of the DLPack protocol to tensors of the device."""
    device_of, export = torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__

    def dlpack_device(tensor: torch.Tensor) -> tuple[object, int]:
        if tensor.device.type != NAME:
            return device_of(tensor)
        return DLDeviceType.kDLExtDev, tensor.device.index or 0

    def dlpack(
        tensor: torch.Tensor,
        *,
        stream: object = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        to_cpu = (
            tensor.device.type == NAME
            and dl_device is not None
            and (int(dl_device[0]), dl_device[1]) == CPU
        )
        accepts_read_only = max_version is not None and max_version >= (1, 0) and not copy
        if to_cpu and accepts_read_only and _is_plain(tensor):
            return _C._read_only_dlpack(tensor)
        return export(
            tensor, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    setattr(torch.Tensor, "__dlpack_device__", dlpack_device)  # noqa: B010  (mypy forbids assigning to a method)
    setattr(torch.Tensor, "__dlpack__", dlpack)  # noqa: B010


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the strided memory holds the elements' values.

    For other tensors PyTorch's own export raises an error or copies.
    """
    return tensor.layout == torch.strided and not (
        tensor.requires_grad or tensor.is_conj() or tensor.is_neg()
    )
