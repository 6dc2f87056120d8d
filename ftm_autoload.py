"""The entry point by which `import torch` registers the device ``ftm``.

PyTorch calls every entry point of the group ``torch.backends`` at the end of `import torch`, and an
error in one of them makes `import torch` fail for every program of the environment. An ftm that
does not fit the installed PyTorch must not do that. So this module imports nothing of ftm when it
is loaded, and `register` turns a failure into a warning. A device that raises the reason when it is
used then takes the place of the real one.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["register"]


def register() -> None:
    """Registers the device; if that fails, warns in one line and registers a device that raises the
    reason at its first use."""
    try:
        import ftm_lazy  # noqa: F401  (importing it registers the device)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "run `" not in reason:  # not foreseen, so an ftm for another PyTorch is the likely cause
            reinstall = "run `pip install --no-build-isolation --force-reinstall --no-deps .` in ftm's sources"
            reason = f"{type(error).__name__}: {reason}: {reinstall}"
        _warn(f"the device ftm is not available: {reason}")
        _register_unavailable(os.environ.get("FTM_DEVICE_NAME") or "ftm", reason)


class _UnavailableDevice(ModuleType):
    """`torch.ftm` where ftm does not work. PyTorch calls `_lazy_init` before it makes the first
    tensor on the device."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"torch.{name}", "A device that is not available.")
        self._reason = f"the device {name} is not available: {reason}"

    def is_available(self) -> bool:
        """False, so that programs that ask choose another device."""
        return False

    def device_count(self) -> int:
        """0."""
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Called by ``torch.manual_seed``, which warns of devices that do not have it."""

    def _lazy_init(self) -> NoReturn:
        raise ImportError(self._reason)

    def get_amp_supported_dtype(self) -> NoReturn:
        """Called by ``torch.autocast``; raises ImportError."""
        raise ImportError(self._reason)

    def __getattr__(self, name: str) -> Any:
        # An AttributeError, because PyTorch asks by `hasattr` what a device has, also in programs
        # that do not use it.
        raise AttributeError(f"{self.__name__}.{name}: {self._reason}")


def _register_unavailable(name: str, reason: str) -> None:
    """Puts a device that raises `reason` in the place of what `register` may have registered before
    it failed."""
    import torch

    try:
        torch.utils.rename_privateuse1_backend(name)
    except RuntimeError:  # a name that PyTorch does not take: programs cannot use it either
        return
    device = _UnavailableDevice(name, reason)
    sys.modules[device.__name__] = device
    setattr(torch, name, device)
    if not hasattr(torch.Tensor, name):
        torch.utils.generate_methods_for_privateuse1_backend()


def _warn(message: str) -> None:
    """Warns without a source line, which would be one of this module."""
    try:
        warnings.warn_explicit(message, UserWarning, "ftm", 1)
    except UserWarning:  # under -W error: a warning must not make `import torch` fail either
        print(message, file=sys.stderr)
