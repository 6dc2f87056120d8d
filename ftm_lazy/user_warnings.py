"""Warnings about problems that ftm has recovered from; they never interrupt the user's program."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

import torch

import ftm_backend

__all__ = ["warn_user"]

_LIBRARIES = tuple(
    os.path.join(folder, "")
    for folder in (os.path.dirname(__file__), *ftm_backend.__path__, *torch.__path__)
)
"""Folders of library code; a warning points at the first frame outside of them."""


def warn_user(message: str) -> None:
    """Issue a RuntimeWarning that points at the user's line.

    If the user has turned warnings into errors, print to stderr instead: the caller must finish
    its work.

    Args:
        message: One line without the prefix ``ftm:``.
    """
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2 + _library_frames(sys._getframe(1)))
    except RuntimeWarning:
        print(f"ftm: {message}", file=sys.stderr)


def _library_frames(frame: FrameType | None) -> int:
    """Count the library frames above the user's line; 0 on ftm's own threads."""
    count = 0
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            return count
        frame = frame.f_back
        count += 1
    return 0
