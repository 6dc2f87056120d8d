"""The functions of ``torch._C`` behind ``nn.DataParallel``, which only CUDA builds contain.

``nn.DataParallel`` scatters a batch over devices, replicates the module and gathers the results.
Devices are indices of ftm; -1 is the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ftm_lazy.torch_version import private_names

__all__ = ["install"]


def _device(index: int | None) -> torch.device:
    if index == -1:
        return torch.device("cpu")
    return torch.device(private_names.privateuse1_name(), index or 0)


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: object,
) -> list[torch.Tensor]:
    """Split `tensor` along `dim` into one part for each device."""
    parts = (
        tensor.chunk(len(devices), dim)
        if chunk_sizes is None
        else tensor.split(list(chunk_sizes), dim)
    )
    # a short batch has fewer parts than there are devices
    return [part.to(_device(index)) for part, index in zip(parts, devices, strict=False)]


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    """Concatenate tensors along `dim` on one device."""
    return torch.cat([tensor.to(_device(destination)) for tensor in tensors], dim)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """Copy `tensor` to each device."""
    return [tensor.to(_device(index)) for index in devices]


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """Copy all tensors to each device."""
    return [[tensor.to(_device(index)) for tensor in tensors] for index in devices]


def install() -> None:
    """Add the functions to ``torch._C`` if the build lacks them."""
    if not hasattr(private_names.c_module, "_scatter"):
        for function in (_scatter, _gather, _broadcast, _broadcast_coalesced):
            setattr(private_names.c_module, function.__name__, function)
