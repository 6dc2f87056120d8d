"""ftm: a PyTorch lazy-tensor device that compiles recorded operations to matrix assembly.

    import torch                     # registers the device "ftm" once the package is installed
    model = model.to("ftm")          # the training loop needs no other change

A training loop does not need to import this package. It offers tools (`sync`, `metrics`, `debug`,
`settings`) and the other entry points of the compiler (`FTMCompiler`, `package`,
`TorchCompileBackend`).
"""

from __future__ import annotations

import importlib
from typing import Any

import torch  # noqa: F401  (registers the device, unless the user has switched that off)

from ftm_lazy.device.registration import register

__version__ = "0.1.0"

register()

__all__ = [
    "FTMCompiler",
    "TorchCompileBackend",
    "debug",
    "metrics",
    "package",
    "profile",
    "settings",
    "sync",
]

_MODULES = ("debug", "metrics", "profiler", "settings", "torch_xla")
_NAMES = {
    "FTMCompiler": "ftm_lazy.frontends.ftm_compiler",
    "TorchCompileBackend": "ftm_lazy.frontends.dynamo",
    "package": "ftm_lazy.frontends.package",
    "profile": "ftm_lazy.profiler",
}


def sync(wait: bool = False) -> None:
    """Cut the trace here: compile and run all pending operations whose results are still needed.

    A training loop need not call this: reading a value and `optimizer.step()` also cut the trace.

    Args:
        wait: Wait until the programs have run, and raise the error of a program that failed.

    Example:
        >>> y = x @ w           # recorded
        >>> ftm_lazy.sync()     # compiled and launched
    """
    from ftm_lazy import _C

    _C._sync(wait)


def __getattr__(name: str) -> Any:
    # `import torch` imports this module, so the others load on first access.
    if name in _MODULES:
        return importlib.import_module(f"ftm_lazy.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
