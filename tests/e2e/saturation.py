"""Weights for which PyTorch's own products of 8-bit integers are exact on this processor, so that
it is a reference for the device.

Without VNNI it adds two products in 16 bits, which saturate. The device never does. There weights
have seven bits.
"""

from __future__ import annotations

import torch
from torch.ao import quantization

__all__ = ["LARGEST_WEIGHT", "configuration"]


def _are_exact() -> bool:
    packed = torch.ops.quantized.linear_prepack(
        torch.quantize_per_tensor(torch.full((4, 16), 127.0), 1.0, 0, torch.qint8), None
    )
    found = torch.ops.quantized.linear(
        torch.quantize_per_tensor(torch.full((4, 16), 255.0), 1.0, 0, torch.quint8),
        packed,
        4096.0,
        0,
    )
    return int(found.int_repr()[0, 0]) == round(16 * 127 * 255 / 4096)


_EXACT = _are_exact()

LARGEST_WEIGHT = 128 if _EXACT else 64
"""Integer, or its negative, that may be multiplied with any activation."""


def configuration() -> quantization.QConfig:
    """PyTorch's default for fbgemm, but for the weights."""
    default = quantization.get_default_qconfig("fbgemm")
    if _EXACT:
        return default
    bounds = {"quant_min": -LARGEST_WEIGHT, "quant_max": LARGEST_WEIGHT - 1}
    return quantization.QConfig(
        activation=default.activation, weight=default.weight.with_args(**bounds)
    )
