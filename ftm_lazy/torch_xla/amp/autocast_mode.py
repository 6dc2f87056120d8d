"""torch_xla.amp.autocast_mode: `torch.autocast` for the device, in bfloat16 unless another dtype is
asked for."""

from __future__ import annotations

import torch

from ftm_lazy.device.device_name import NAME

__all__ = ["autocast"]


class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801  (torch_xla's name)
    """Operations in it compute in lower precision where that is safe.

    Args:
        device: the device.
        enabled: whether it has an effect.
        dtype: bfloat16 if None, or float16.
        cache_enabled: keep the casts of parameters.

    Raises ValueError for another device.
    """

    def __init__(
        self,
        device: torch.device | str,
        enabled: bool = True,
        dtype: torch.dtype | None = None,
        cache_enabled: bool = True,
    ) -> None:
        if torch.device(device).type != NAME:
            raise ValueError(
                f"torch_xla.amp.autocast is for {NAME}; for {device} use torch.autocast"
            )
        super().__init__(
            NAME, dtype=dtype or torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled
        )
