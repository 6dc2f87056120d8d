"""`torch.nn.attention.flex_attention` on ftm, in its unfused form.

PyTorch has a list of supported devices, and registers its autocast rule for CPU and CUDA only. The
patches add ftm to both.
"""

from __future__ import annotations

from types import ModuleType

import torch

from ftm_lazy.device.device_name import NAME
from ftm_lazy.integrations import import_hooks
from ftm_lazy.torch_version import private_names


def install() -> None:
    """Patch PyTorch's modules, now or when they are imported."""
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
    # the CPU's rule uses the dtype of the tensor's device
    cast_and_call = module.flex_attention.py_kernels[private_names.DispatchKey.AutocastCPU]

    def under_autocast(*args: object, **kwargs: object) -> object:
        with private_names.excluding_autocast():
            return cast_and_call(*args, **kwargs)

    module.flex_attention.py_impl(private_names.AUTOCAST)(under_autocast)
