"""PyTorch's private functions that ``ftm_lazy`` calls, each with its reason.

``ftm_lazy.torch_xla`` has its own, because torch_xla's names are themselves private.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch._C import DispatchKey

__all__ = [
    "AUTOCAST",
    "DisableAutocast",
    "DispatchKey",
    "accelerator_statistics",
    "c_module",
    "excluding_autocast",
    "has_saved_tensor_hooks",
    "in_functorch_transform",
    "mkldnn_enabled",
    "privateuse1_name",
    "set_mkldnn_enabled",
]

c_module = torch._C
"""The module to which ``integrations/data_parallel.py`` adds functions that CPU builds lack."""

AUTOCAST = torch._C._dispatch_key_parse("AutocastPrivateUse1")
"""The dispatch key of the device's autocast, parsed from its name: the type stubs lack it."""

DisableAutocast = torch._C._DisableAutocast
"""Context in which autocast casts nothing. There is no public one for all devices at once."""


def privateuse1_name() -> str:
    """Return the device's name, which may be another than ``ftm`` (FTM_DEVICE_NAME)."""
    return torch._C._get_privateuse1_backend_name()


def accelerator_statistics(index: int) -> dict[str, object]:
    """Return the allocator's statistics, nested by pool and kind."""
    return torch._C._accelerator_getDeviceStats(index)


def in_functorch_transform() -> bool:
    """Return whether the call is within ``torch.func.grad``, ``vmap`` or another transform."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def has_saved_tensor_hooks() -> bool:
    """Return whether ``torch.autograd.graph.saved_tensors_hooks`` is active."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def mkldnn_enabled() -> bool:
    """Return whether ATen may use oneDNN, which changes what graphs contain."""
    return torch._C._get_mkldnn_enabled()


def set_mkldnn_enabled(enabled: bool) -> None:
    """Let ATen use oneDNN, or not."""
    torch._C._set_mkldnn_enabled(enabled)


def excluding_autocast() -> AbstractContextManager[object]:
    """Return a context in which the device's autocast kernels are skipped."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(AUTOCAST))
