"""torch_xla.utils.dlpack: exchange of tensors with other libraries, through copies on the host."""

from __future__ import annotations

import torch
import torch.utils.dlpack

from ftm_lazy.device.device_name import NAME

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(xla_tensor: torch.Tensor) -> object:
    """Return a capsule with a copy of the tensor on the CPU."""
    return torch.utils.dlpack.to_dlpack(xla_tensor.detach().cpu())


def from_dlpack(ext_tensor: object) -> torch.Tensor:
    """Return a copy on the device of another library's tensor or of a capsule.

    Raises:
        ValueError: The tensor is not on the CPU.
    """
    if hasattr(ext_tensor, "__dlpack_device__"):
        kind, _ = ext_tensor.__dlpack_device__()
        if kind != torch.utils.dlpack.DLDeviceType.kDLCPU:
            raise ValueError("PyTorch/XLA DLPack implementation currently only supports CPU.")
    return torch.utils.dlpack.from_dlpack(ext_tensor).to(torch.device(NAME, 0))
