"""The device type's name in PyTorch: ``ftm``, or the value of FTM_DEVICE_NAME.

PyTorch names a device once, when it is registered, so the name comes from the environment. For
programs written for torch_xla it is ``"xla"``.
"""

from __future__ import annotations

import os

import torch
from torch.utils import backend_registration

NAME = os.environ.get("FTM_DEVICE_NAME") or "ftm"
"""The device type, as in ``torch.device(NAME, 0)``."""

if not (NAME.isascii() and NAME.isidentifier() and NAME.islower() and NAME[0] != "_"):
    raise ValueError(
        f"FTM_DEVICE_NAME={NAME!r} is not valid; valid values: lower-case names, such as xla"
    )


def add_methods() -> None:
    """Add ``.ftm()`` and ``.is_ftm`` to tensors, modules and storages, under the device's name."""
    # PyTorch's own `is_xla` tests for the dispatch key XLA, and ours is PrivateUse1
    is_builtin = hasattr(torch.Tensor, f"is_{NAME}")
    if is_builtin:
        setattr(torch.Tensor, f"is_{NAME}", property(_is_here))
        setattr(torch.Tensor, NAME, _to_here)
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=not is_builtin, for_storage=True
    )


def _is_here(tensor: torch.Tensor) -> bool:
    return tensor.device.type == NAME


def _to_here(
    tensor: torch.Tensor,
    device: int | torch.device | None = None,
    non_blocking: bool = False,
    **kwargs: object,
) -> torch.Tensor:
    """Copy `tensor` to the device; `device` may give the index."""
    index = backend_registration._normalization_device(NAME, device)
    return tensor.to(torch.device(NAME, index), non_blocking=non_blocking, **kwargs)
