"""torch_xla.amp: mixed precision."""

from ftm_lazy.torch_xla.amp.autocast_mode import autocast
from ftm_lazy.torch_xla.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
