"""Entry point through which `import torch` registers the device ``ftm``.

PyTorch calls every entry point of the group ``torch.backends`` at the end of `import torch`. An
error in one of them makes `import torch` fail for every program in the environment, and an ftm that
was built for another PyTorch must not cause that. So this module imports nothing of ftm when it is
loaded, and `register` turns a failure into a warning. It then registers a placeholder device that
raises the reason when it is used.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["register"]


def register() -> None:
    """Register the device.

    If that fails, warn in one line and register a placeholder that raises the reason when used.
    """
    try:
        import ftm_lazy  # noqa: F401  (importing it registers the device)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "run `" not in reason:  # unforeseen: ftm was probably built for another PyTorch
            reinstall = "run `pip install --no-build-isolation --force-reinstall --no-deps .`"
            reason = f"{type(error).__name__}: {reason}: {reinstall} in ftm's sources"
        _warn(f"the device ftm is not available: {reason}")
        _register_unavailable(os.environ.get("FTM_DEVICE_NAME") or "ftm", reason)


class _UnavailableDevice(ModuleType):
    """`torch.ftm` if ftm cannot be loaded.

    PyTorch calls `_lazy_init` before it makes the first tensor on the device; it raises the reason.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"torch.{name}", "A device that is not available.")
        self._reason = f"the device {name} is not available: {reason}"

    def is_available(self) -> bool:
        """Return False, so that programs which check choose another device."""
        return False

    def device_count(self) -> int:
        """Return 0."""
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Do nothing; ``torch.manual_seed`` warns about devices without this function."""

    def _lazy_init(self) -> NoReturn:
        raise ImportError(self._reason)

    def get_amp_supported_dtype(self) -> NoReturn:
        """Raise ImportError; called by ``torch.autocast``."""
        raise ImportError(self._reason)

    def __getattr__(self, name: str) -> Any:
        # PyTorch calls `hasattr` on every device module, also in programs that do not use it.
        raise AttributeError(f"{self.__name__}.{name}: {self._reason}")


def _register_unavailable(name: str, reason: str) -> None:
    """Register a device that raises `reason`, over the parts `register` managed to register."""
    import torch

    try:
        torch.utils.rename_privateuse1_backend(name)
    except RuntimeError:  # PyTorch rejects the name, so programs cannot use it either
        return
    device = _UnavailableDevice(name, reason)
    sys.modules[device.__name__] = device
    setattr(torch, name, device)
    if not hasattr(torch.Tensor, name):
        torch.utils.generate_methods_for_privateuse1_backend()


def _warn(message: str) -> None:
    """Warn without a source line: it would be a line of this module."""
    try:
        warnings.warn_explicit(message, UserWarning, "ftm", 1)
    except UserWarning:  # under -W error: a warning must not make `import torch` fail either
        print(message, file=sys.stderr)
