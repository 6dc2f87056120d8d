"""The parts of torch_xla's native module, ``_XLAC``, that programs call directly."""

from __future__ import annotations

import torch

from ftm_lazy import _C, debug
from ftm_lazy.device_name import NAME
from ftm_lazy.torch_xla import _steps

__all__ = [
    "_get_xla_tensors_dot",
    "_get_xla_tensors_hlo",
    "_get_xla_tensors_text",
    "_xla_get_default_device",
    "_xla_step_marker",
    "_xla_sync_multi",
]


def _get_xla_tensors_text(tensors: list[torch.Tensor]) -> str:
    """The trace that would compute `tensors`."""
    return debug.text(tensors, "trace")


def _get_xla_tensors_hlo(tensors: list[torch.Tensor]) -> str:
    """The program that would compute `tensors`, as MLIR: linalg on tensors."""
    return debug.text(tensors, "linalg")


def _get_xla_tensors_dot(tensors: list[torch.Tensor]) -> str:
    """The trace that would compute `tensors`, as a graph for graphviz."""
    from ftm_lazy.torch_xla.debug import _dot

    return _dot.graph(debug.text(tensors, "trace"))


def _xla_get_default_device() -> str:
    """The device's name."""
    return f"{NAME}:0"


def _xla_step_marker(device: str, devices: list[str], wait: bool = True, reset_scope: bool = True) -> None:
    """`torch_xla.sync`."""
    _steps.sync(wait, reset_scope)


def _xla_sync_multi(tensors: list[torch.Tensor], devices: list[str], wait: bool = True, sync_xla_data: bool = True) -> None:
    """Runs everything that is recorded, `tensors` among it."""
    _C._sync(wait)
