"""Tensors as NumPy arrays, which know no bfloat16 and no 8-bit floats: those travel as their
bits."""

from __future__ import annotations

import numpy as np
import torch


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """The bytes of ``x``; bf16 as uint16, float8 as uint8."""
    x = x.detach().contiguous()
    if x.element_size() == 1 and x.dtype.is_floating_point:
        return x.view(torch.uint8).numpy()
    return x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy()


def from_numpy(x: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """The reverse of to_numpy."""
    tensor = torch.from_numpy(np.ascontiguousarray(x).reshape(x.shape))
    return (
        tensor.view(torch.int16).view(torch.bfloat16)
        if dtype == torch.bfloat16
        else tensor.view(dtype)
    )
