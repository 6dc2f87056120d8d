"""`torch.nn.attention.flex_attention` on the device: in its unfused form, as on devices without
Triton kernels.

PyTorch lists by name the devices that have it, and registers its rule of mixed precision for CPU
and CUDA only.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey

from ftm_lazy.device.device_name import NAME
from ftm_lazy.integrations import import_hooks

__all__ = ["install"]


def install() -> None:
    """Make the changes, now or when PyTorch's modules are imported."""
    import_hooks.patch(
        {
            "torch.nn.attention.flex_attention": _accept_device,
            "torch._higher_order_ops.flex_attention": _register_autocast,
        }
    )


def _accept_device(module: ModuleType) -> None:
    validate = module._validate_device

    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != NAME:
            validate(query, key, value)

    module._validate_device = validate_device  # type: ignore[attr-defined]


def _register_autocast(module: ModuleType) -> None:
    # it asks for the device's own dtype
    cast_and_call = module.flex_attention.py_kernels[DispatchKey.AutocastCPU]
    # the enumeration's annotations lack it
    autocast = torch._C._dispatch_key_parse("AutocastPrivateUse1")

    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(autocast)):
            return cast_and_call(*args, **kwargs)

    module.flex_attention.py_impl(autocast)(under_autocast)
