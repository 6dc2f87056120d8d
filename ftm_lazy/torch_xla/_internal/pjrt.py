"""torch_xla._internal.pjrt: how `xla_multiprocessing.spawn` starts processes, as some programs call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftm_lazy.torch_xla.distributed import xla_multiprocessing

__all__ = ["spawn"]


def spawn(fn: Callable[..., Any], nprocs: int | None = None, start_method: str = "spawn", args: tuple[Any, ...] = ()) -> None:
    """`xla_multiprocessing.spawn`."""
    xla_multiprocessing.spawn(fn, args, nprocs, start_method=start_method)
