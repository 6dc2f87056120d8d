"""torch_xla.amp.syncfree.adamw: see `Skipping`."""

import torch

from ftm_lazy.torch_xla.amp.syncfree._skipping import Skipping

__all__ = ["AdamW"]


class AdamW(Skipping, torch.optim.AdamW):
    """`torch.optim.AdamW` with the argument `found_inf` of `step`."""
