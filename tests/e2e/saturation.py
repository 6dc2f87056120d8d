"""Whether PyTorch's own products of 8-bit integers are exact on this processor.

Without VNNI they add two products in 16 bits, which saturates (why PyTorch's default configurations leave a bit of activations unused).
The device never does, so the CPU is no reference there.
"""

from __future__ import annotations

import pytest
import torch

__all__ = ["exact_products"]


def _are_exact() -> bool:
    packed = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(torch.full((4, 16), 127.0), 1.0, 0, torch.qint8), None)
    found = torch.ops.quantized.linear(torch.quantize_per_tensor(torch.full((4, 16), 255.0), 1.0, 0, torch.quint8), packed, 4096.0, 0)
    return int(found.int_repr()[0, 0]) == round(16 * 127 * 255 / 4096)


exact_products = pytest.mark.skipif(not _are_exact(), reason="this processor's own products of 8-bit integers saturate")
