"""`torch.ftm.amp`: `torch.amp` with the device as default."""

from __future__ import annotations

import functools

import torch

from ftm_lazy.device.device_name import NAME


class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801  (the name in torch.amp)
    """`torch.autocast` with ``device_type="ftm"``.

    Args:
        enabled: Whether autocasting is on.
        dtype: torch.bfloat16 or torch.float16, the dtype of matmuls and convolutions.
        cache_enabled: Whether cast weights are reused within the context.

    Example:
        >>> with torch.ftm.amp.autocast():
        ...     loss = model(x).sum()
    """

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__(NAME, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler` with ``device="ftm"``; the arguments are its own."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(NAME, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type=NAME)
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type=NAME)
