"""Errors of code generation."""

from __future__ import annotations

from ftm_backend.pass_manager import FunctionError


class CodegenError(FunctionError):
    """No assembly can be emitted for a function."""
