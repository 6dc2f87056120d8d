"""torch_xla.amp.autocast_mode: `torch.autocast` for the device, by default in bfloat16."""

from __future__ import annotations

import torch

from ftm_lazy.device.device_name import NAME

__all__ = ["autocast"]


class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801  (torch_xla's name)
    """Context manager in which suitable operations compute in lower precision.

    Args:
        device: The device.
        enabled: Whether it has an effect.
        dtype: torch.bfloat16 or torch.float16; None for bfloat16.
        cache_enabled: Whether cast parameters are reused within the context.

    Raises:
        ValueError: The device is not ftm.
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
