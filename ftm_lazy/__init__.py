"""ftm: a PyTorch device that records what it is told, compiles it to matrix assembly and runs that.

    import torch                     # knows the device "ftm" once the package is installed
    model = model.to("ftm")          # the training loop stays as it is

This package has what a training loop does not need: `sync`, `metrics`, `debug`, `settings`; and the
other front doors: `FTMCompiler`, `package`, `TorchCompileBackend`.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch  # noqa: F401  (registers the device, unless the user has switched that off)

from ftm_lazy.device.registration import register

register()

__all__ = ["FTMCompiler", "TorchCompileBackend", "debug", "metrics", "package", "settings", "sync"]

_MODULES = ("debug", "metrics", "settings", "torch_xla")
_NAMES = {
    "FTMCompiler": "ftm_lazy.frontends.compiler",
    "TorchCompileBackend": "ftm_lazy.frontends.dynamo",
    "package": "ftm_lazy.frontends.package",
}


def sync(wait: bool = False) -> None:
    """Cuts the trace here: everything that is recorded and still needed runs as one program.

    A training loop need not call this; reading a value and the end of `optimizer.step()` cut as
    well.

    Args:
        wait: also wait until it has run, and raise the error of a program that failed.
    """
    from ftm_lazy import _C

    _C._sync(wait)


def __getattr__(name: str) -> Any:
    # This module is part of every `import torch`, so it loads the others when they are asked for.
    if name in _MODULES:
        return importlib.import_module(f"ftm_lazy.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
