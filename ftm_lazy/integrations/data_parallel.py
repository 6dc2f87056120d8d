"""The functions of ``torch._C`` behind ``nn.DataParallel``, which PyTorch has for CUDA only.

``nn.DataParallel`` scatters a batch over devices, replicates the module and gathers the results.
Devices are indices of ftm; -1 is the CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from ftm_lazy.torch_version import private_names


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


def _for_tensors_of_cuda(own: Callable[..., object], cudas: Callable[..., object]) -> object:
    """Return a function that calls `cudas` if CUDA is there and no tensor is on ftm, else `own`."""

    @functools.wraps(cudas)
    def call(tensors: torch.Tensor | Sequence[torch.Tensor], *rest: object) -> object:
        given = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        name = private_names.privateuse1_name()
        is_cudas = torch.cuda.is_available() and not any(t.device.type == name for t in given)
        return (cudas if is_cudas else own)(tensors, *rest)

    return call


def install() -> None:
    """Add the functions to ``torch._C``; in CUDA builds, let its own serve ftm, too."""
    module = private_names.c_module
    for function in (_scatter, _gather, _broadcast, _broadcast_coalesced):
        cudas = getattr(module, function.__name__, None)
        chosen = function if cudas is None else _for_tensors_of_cuda(function, cudas)
        setattr(module, function.__name__, chosen)
