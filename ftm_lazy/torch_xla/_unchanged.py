"""What programs find that run unchanged, where the device is named xla, and what helps those for
which it is not."""

from __future__ import annotations

import functools
import os
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from ftm_lazy.device.device_name import NAME

__all__ = ["prepare"]

_kept: list[object] = []


def prepare() -> None:
    """Called once, when torch_xla's names are imported."""
    if NAME == "xla":
        # as torch_xla's autocast, which has no other
        torch.set_autocast_dtype(NAME, torch.bfloat16)
        _give_meshes_their_groups()
        if os.environ.get("FTM_XLA_LAX") == "1":
            from ftm_lazy.torch_xla._lax import Lax

            mode = Lax()
            mode.__enter__()
            _kept.append(mode)
        return
    library = torch.library.Library("_", "IMPL", "XLA")
    library.fallback(_say_the_name)
    _kept.append(library)


def _give_meshes_their_groups() -> None:
    """Makes `DeviceMesh` make process groups for the device, which it leaves out for one that is
    named xla."""
    make = DeviceMesh.__init__

    @functools.wraps(make)
    def make_with_groups(
        self: DeviceMesh, device_type: str, *args: object, **kwargs: object
    ) -> None:
        make(self, "cpu" if device_type == NAME else device_type, *args, **kwargs)
        self._device_type = device_type

    DeviceMesh.__init__ = make_with_groups


def _say_the_name(*args: object, **kwargs: object) -> None:
    raise RuntimeError(
        f"the device is named {NAME!r} here, not 'xla': write torch_xla.device(), or run the program by"
        " `python -m ftm_lazy.torch_xla script.py`, where it is named 'xla' (docs/torch_xla.md)"
    )
