"""torch_xla.experimental.custom_kernel: the function that is plain PyTorch; kernels are refused."""

from __future__ import annotations

import torch

from ftm_lazy.torch_xla import _refusals

__all__ = ["repeat_with_fixed_output_size"]

__getattr__ = _refusals.getter(__name__)


def repeat_with_fixed_output_size(
    input: torch.Tensor, repeats: torch.Tensor, total_repeat_length: int
) -> torch.Tensor:
    """Compute `torch.repeat_interleave` with a result of a given length.

    Example: ``([a, b], [1, 2], 5)`` gives ``[a, b, b, b, b]``, since the last row fills the rest.

    Args:
        input: The rows.
        repeats: How often each row is repeated; integers.
        total_repeat_length: The number of rows of the result.
    """
    places = torch.arange(total_repeat_length, device=input.device)
    rows = torch.searchsorted(repeats.cumsum(0), places, right=True)
    return input.index_select(0, rows.clamp(max=len(input) - 1))
