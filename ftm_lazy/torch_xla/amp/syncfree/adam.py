"""torch_xla.amp.syncfree.adam: see `Skipping`."""

import torch

from ftm_lazy.torch_xla.amp.syncfree._skipping import Skipping

__all__ = ["Adam"]


class Adam(Skipping, torch.optim.Adam):
    """`torch.optim.Adam` with the argument `found_inf` of `step`."""
