"""The name under which PyTorch knows the device: ``ftm``, or what FTM_DEVICE_NAME says.

PyTorch gives the device its name once, when it is registered, so the name comes from the
environment. Programs for torch_xla say ``"xla"``.
"""

from __future__ import annotations

import os
import re

import torch
from torch.utils import backend_registration

__all__ = ["NAME", "add_methods"]

NAME = os.environ.get("FTM_DEVICE_NAME") or "ftm"
"""The device's type, as in ``torch.device(NAME, 0)``."""

if not re.fullmatch("[a-z][a-z0-9_]*", NAME):
    raise ValueError(
        f"FTM_DEVICE_NAME={NAME!r} is not valid; valid values: lower-case names, such as xla"
    )


def add_methods() -> None:
    """Gives tensors, modules and storages their ``.ftm()`` and ``.is_ftm``, by the device's
    name."""
    # PyTorch's is_xla asks for another dispatch key than ours
    own = hasattr(torch.Tensor, f"is_{NAME}")
    if own:
        setattr(torch.Tensor, f"is_{NAME}", property(_is_here))
        setattr(torch.Tensor, NAME, _to_here)
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=not own, for_storage=True
    )


def _is_here(tensor: torch.Tensor) -> bool:
    return tensor.device.type == NAME


def _to_here(
    tensor: torch.Tensor,
    device: int | torch.device | None = None,
    non_blocking: bool = False,
    **kwargs: object,
) -> torch.Tensor:
    """`tensor` on the device; `device` may say its index."""
    index = backend_registration._normalization_device(NAME, device)
    return tensor.to(torch.device(NAME, index), non_blocking=non_blocking, **kwargs)
