"""The parts of torch_xla's native module, ``_XLAC``, that programs call directly."""

from __future__ import annotations

import re

import torch

from ftm_backend.dtypes import DTYPES
from ftm_lazy import _C, debug
from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_xla import _debug_counters, _steps, backends, version
from ftm_lazy.torch_xla._devices import real_devices
from ftm_lazy.torch_xla.debug import metrics
from ftm_lazy.torch_xla.utils import buffer_donor_context

__all__ = [
    "_get_executed_fallback_ops",
    "_get_git_revs",
    "_get_xla_tensor_debug_info",
    "_get_xla_tensor_dimension_size",
    "_get_xla_tensor_shape_type",
    "_get_xla_tensors_dot",
    "_get_xla_tensors_hlo",
    "_get_xla_tensors_text",
    "_init_computation_client",
    "_init_xla_lazy_backend",
    "_replace_xla_tensor",
    "_unsafe_buffer_pointer",
    "_xla_get_default_device",
    "_xla_get_enable_alias_with_buffer_donor_config",
    "_xla_get_mat_mul_precision",
    "_xla_real_devices",
    "_xla_set_enable_alias_with_buffer_donor_config",
    "_xla_set_mat_mul_precision",
    "_xla_step_marker",
    "_xla_sync_multi",
    "_xla_tensors_from_aten",
]


def _xla_token(token: str) -> str:
    """Return XLA's name of an element type: pred for booleans, s32 etc. for signed integers."""
    return "pred" if token == "i1" else re.sub("^i", "s", token)


_XLA_TOKENS = {facts.name: _xla_token(facts.token) for facts in DTYPES.values()}
"""PyTorch's dtype name to XLA's element type."""


def _get_xla_tensors_text(tensors: list[torch.Tensor]) -> str:
    """Return the trace that computes `tensors`."""
    return debug.text(tensors, "trace")


def _get_xla_tensors_hlo(tensors: list[torch.Tensor]) -> str:
    """Return the program that computes `tensors` as MLIR text (linalg on tensors)."""
    return debug.text(tensors, "linalg")


def _get_xla_tensors_dot(tensors: list[torch.Tensor]) -> str:
    """Return the trace that computes `tensors` as a Graphviz graph."""
    from ftm_lazy.torch_xla.debug import _dot

    return _dot.graph(debug.text(tensors, "trace"))


def _get_xla_tensor_shape_type(tensor: torch.Tensor) -> str:
    """Return XLA's name of a tensor's element type, such as "f32"."""
    return _XLA_TOKENS[str(tensor.dtype).removeprefix("torch.")]


def _get_xla_tensor_debug_info(tensor: torch.Tensor) -> str:
    """Return shape and device of a tensor, and its pending trace or its address."""
    if tensor.device.type != NAME:
        return "Not a XLATensor\n"
    shape = f"{_get_xla_tensor_shape_type(tensor)}[{','.join(map(str, tensor.shape))}]"
    recorded = debug.text([tensor], "trace")
    if "::" in recorded:  # an operation; the trace of a tensor in memory has none
        return f"XLA Shape: {shape}\nIR: {recorded}\nXLAData: None\n"
    return (
        f"XLA Shape: {shape}\nIR: None\nXLAData:\n  Data Device: {tensor.device}\n"
        f"  Data Shape: {shape}\n  Data Handle: {hex(tensor.data_ptr())}\n"
    )


_get_executed_fallback_ops = metrics.executed_fallback_ops
_xla_set_mat_mul_precision = backends.set_mat_mul_precision
_xla_get_mat_mul_precision = backends.get_mat_mul_precision
_xla_set_enable_alias_with_buffer_donor_config = buffer_donor_context.set_enabled
_xla_get_enable_alias_with_buffer_donor_config = buffer_donor_context.is_enabled


def _xla_get_default_device() -> str:
    """Return the name of the default device."""
    return f"{NAME}:0"


def _xla_step_marker(
    device: str, devices: list[str], wait: bool = True, reset_scope: bool = True
) -> None:
    """Call `torch_xla.sync`."""
    _steps.sync(wait, reset_scope)


def _xla_sync_multi(
    tensors: list[torch.Tensor], devices: list[str], wait: bool = True, sync_xla_data: bool = True
) -> None:
    """Run all pending operations, including those that compute `tensors`."""
    _C._sync(wait)


def _xla_tensors_from_aten(tensors: list[torch.Tensor], devices: list[str]) -> list[torch.Tensor]:
    """Copy each tensor to its device."""
    return [tensor.to(device) for tensor, device in zip(tensors, devices, strict=True)]


def _xla_real_devices(devices: list[str]) -> list[str]:
    """Return kind and global ordinal of each device."""
    return [real_devices()[torch.device(device).index or 0] for device in devices]


def _get_xla_tensor_dimension_size(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the size of a dimension as an int32 tensor on the device."""
    return torch.tensor(tensor.size(dim), dtype=torch.int32, device=tensor.device)


def _unsafe_buffer_pointer(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's data; operations that compute it run first."""
    _C._sync(True)
    return tensor.data_ptr()


def _replace_xla_tensor(tensor: torch.Tensor, source: torch.Tensor) -> None:
    """Make a tensor refer to the data of another one."""
    tensor.set_(source)


def _init_computation_client() -> None:
    """Do nothing: the device starts at its first use."""


def _init_xla_lazy_backend() -> None:
    """Set the counter of torch_xla: the device is initialized when it is first used."""
    _debug_counters.COUNTS["RegisterXLAFunctions"] = 1


def _get_git_revs() -> dict[str, str]:
    """Return the versions of torch_xla's API and of PyTorch."""
    return {"xla": version.__version__, "torch": torch.version.git_version}
