"""torch_xla.amp.grad_scaler: `torch.amp.GradScaler` for the device."""

from __future__ import annotations

import torch

from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_xla.core import _collectives as collectives

__all__ = ["GradScaler"]


class GradScaler(torch.amp.GradScaler):
    """Scales the loss so that float16 gradients do not underflow.

    If one process has infinite gradients, all processes skip the step.

    Args:
        init_scale: Initial scale of the loss.
        growth_factor: Factor of the scale after `growth_interval` steps without infinite gradients.
        backoff_factor: Factor of the scale after a step with infinite gradients, which is skipped.
        growth_interval: Number of steps.
        enabled: Whether it has an effect.
        use_zero_grad: Accepted; a step is skipped without setting gradients to zero.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        use_zero_grad: bool = False,
    ) -> None:
        super().__init__(NAME, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    def _unscale_grads_(
        self,
        optimizer: torch.optim.Optimizer,
        inv_scale: torch.Tensor,
        found_inf: torch.Tensor,
        allow_fp16: bool,
    ) -> dict[torch.device, torch.Tensor]:
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        return {
            device: collectives.all_reduce(collectives.REDUCE_MAX, value)
            for device, value in found.items()
        }
