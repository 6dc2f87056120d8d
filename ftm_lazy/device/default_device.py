"""Whether libraries that look for a device by themselves choose ftm."""

from __future__ import annotations

import torch

from ftm_lazy.device.device_name import NAME


def is_default() -> bool:
    """Return whether the user has made ftm the default.

    Installing ftm must not move a program to it. So libraries choose it only with FTM_DEFAULT=1,
    or after ``torch.set_default_device("ftm")``.
    """
    from ftm_lazy import settings

    return settings.current().default or torch.get_default_device().type == NAME
