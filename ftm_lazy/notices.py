"""Warnings about trouble that has been dealt with: they are told, and never stop the program that goes on."""

from __future__ import annotations

import sys
import warnings

__all__ = ["notice"]


def notice(message: str, stacklevel: int = 2) -> None:
    """A RuntimeWarning; where the user made warnings errors, a line on stderr, since the work at hand has to be finished.

    Args:
        message: what went wrong, and what is done about it.
        stacklevel: as of `warnings.warn`; 1 is who calls this function.
    """
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=stacklevel + 1)
    except RuntimeWarning:
        print(f"ftm: {message}", file=sys.stderr)
