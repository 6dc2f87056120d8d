"""The names of torch_xla, on the device ftm.

    import ftm_lazy.torch_xla as torch_xla
    import ftm_lazy.torch_xla.core.xla_model as xm

Nothing called ``torch_xla`` becomes importable, because other libraries change their behaviour when it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import ftm_lazy
from ftm_lazy.torch_xla import core

__all__ = ["core", "device", "step", "sync"]


def device(index: int | None = None) -> torch.device:
    """The device ftm; there is one, with index 0."""
    return core.xla_model.xla_device(index)


def sync(wait: bool = False) -> None:
    """Launches everything that is recorded; with `wait`, also waits until it has run."""
    ftm_lazy.sync(wait)


@contextmanager
def step() -> Iterator[None]:
    """Context of one training step: what is recorded in it runs as programs of its own."""
    sync()
    try:
        yield
    finally:
        sync()
