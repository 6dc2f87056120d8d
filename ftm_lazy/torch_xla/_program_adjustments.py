"""Adjustments for unmodified torch_xla programs, made when torch_xla's names are imported.

If the device is named xla, its autocast dtype, device meshes and (FTM_XLA_LAX) operand checks
behave as torch_xla's. Otherwise a tensor on device "xla" raises an error that names the remedy.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from ftm_lazy import settings
from ftm_lazy.device.device_name import NAME

__all__ = ["prepare"]

_kept_alive: list[object] = []


def prepare() -> None:
    """Make the adjustments; called once, when torch_xla's names are imported."""
    if NAME == "xla":
        # the only dtype of torch_xla's autocast
        torch.set_autocast_dtype(NAME, torch.bfloat16)
        _create_mesh_groups()
        if settings.current().xla_lax:
            from ftm_lazy.torch_xla._lenient_operands import Lax

            mode = Lax()
            mode.__enter__()
            _kept_alive.append(mode)
        return
    library = torch.library.Library("_", "IMPL", "XLA")
    library.fallback(_raise_wrong_name)
    _kept_alive.append(library)


def _create_mesh_groups() -> None:
    """Let `DeviceMesh` create process groups; it skips them for a device named xla."""
    make = DeviceMesh.__init__

    @functools.wraps(make)
    def make_with_groups(
        self: DeviceMesh, device_type: str, *args: object, **kwargs: object
    ) -> None:
        make(self, "cpu" if device_type == NAME else device_type, *args, **kwargs)
        self._device_type = device_type

    DeviceMesh.__init__ = make_with_groups


def _raise_wrong_name(*args: object, **kwargs: object) -> None:
    raise RuntimeError(
        f"the device is named {NAME!r} here, not 'xla': write torch_xla.device(), or run the"
        " program with `python -m ftm_lazy.torch_xla script.py`, which names it 'xla'"
        " (docs/torch_xla.md)"
    )
