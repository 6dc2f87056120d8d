"""torch_xla.amp.syncfree.sgd: see `Skipping`."""

import torch

from ftm_lazy.torch_xla.amp.syncfree._skipping import Skipping

__all__ = ["SGD"]


class SGD(Skipping, torch.optim.SGD):
    """`torch.optim.SGD` with the argument `found_inf` of `step`."""
