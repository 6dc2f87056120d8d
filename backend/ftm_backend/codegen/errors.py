"""The error of this folder."""

from __future__ import annotations

from ftm_backend.pass_manager import FunctionError

__all__ = ["CodegenError"]


class CodegenError(FunctionError):
    """A function that no assembly can be written for."""
