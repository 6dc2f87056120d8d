"""Warnings about trouble that has been dealt with: they are told, and never stop the program that
goes on."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

import torch

import ftm_backend

__all__ = ["notice"]

_LIBRARIES = tuple(
    os.path.join(folder, "")
    for folder in (os.path.dirname(__file__), *ftm_backend.__path__, *torch.__path__)
)
"""Folders whose lines are never what a warning is about."""


def notice(message: str) -> None:
    """Gives a RuntimeWarning at the line of the user's program that led here.

    Where the user made warnings errors it is a line on stderr, since the work at hand has to be
    finished.
    """
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2 + _library_frames(sys._getframe(1)))
    except RuntimeWarning:
        print(f"ftm: {message}", file=sys.stderr)


def _library_frames(frame: FrameType | None) -> int:
    """How many frames lie between the user's line and this module; 0 where no line is the user's,
    as on a thread of ftm."""
    count = 0
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            return count
        frame = frame.f_back
        count += 1
    return 0
