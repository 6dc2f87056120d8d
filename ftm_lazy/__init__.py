"""ftm: a PyTorch device that records what it is told, compiles it to matrix assembly and runs that.

    import torch                     # knows the device "ftm" once the package is installed
    model = model.to("ftm")          # the training loop stays as it is

This package has what a training loop does not need: `sync`, `metrics`, `debug`, `settings`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import torch  # noqa: F401  (registers the device, unless the user has switched that off)

from ftm_lazy.registration import register

register()

__all__ = ["debug", "metrics", "settings", "sync"]

_MODULES = ("debug", "metrics", "settings", "torch_xla")


def sync(wait: bool = False) -> None:
    """Cuts the trace here: everything that is recorded and still needed runs as one program.

    A training loop need not call this; reading a value and the end of `optimizer.step()` cut as well.

    Args:
        wait: also wait until it has run, and raise the error of a program that failed.
    """
    from ftm_lazy import _C

    _C._sync(wait)


def __getattr__(name: str) -> ModuleType:
    # This module is part of every `import torch`, so it loads the others when they are asked for.
    if name in _MODULES:
        return importlib.import_module(f"ftm_lazy.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
