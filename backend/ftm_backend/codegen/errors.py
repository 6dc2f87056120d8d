"""The error of this folder."""

from __future__ import annotations

__all__ = ["CodegenError"]


class CodegenError(Exception):
    """A kernel that no assembly can be written for."""
