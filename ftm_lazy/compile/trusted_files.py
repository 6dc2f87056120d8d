"""Files that only this user can have written, read whole and bounded.

A program from the cache runs in this process. So a file counts only if this user owns it and nobody
else may write to it, and the same holds for its directory; what is no regular file (a pipe would
never end) is not opened for long.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ftm_backend import atomic_file

__all__ = ["ForeignFile", "UnreadableFile", "check_directory", "read", "write"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
PARTIAL = ".partial-"
"""What names of files begin with that are being written."""


class ForeignFile(Exception):
    """Another user may have written this; the message says why, and what would cure it."""


class UnreadableFile(Exception):
    """This is no file that `write` made; the message says why."""


def check_directory(directory: Path) -> None:
    """Raises Foreign unless the directory is this user's alone to write to; OSError if there is
    none or it is a file."""
    status = os.stat(directory)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    _check(status, str(directory), "700")


def read(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises Foreign, Unreadable, or OSError (FileNotFoundError if there is none).
    """
    if path.is_symlink():
        raise UnreadableFile("it is a link")
    # Not blocking: opening a pipe would wait for who writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("it is no regular file")
        _check(status, str(path), "600")
        if status.st_size > limit:
            raise UnreadableFile(f"it has {status.st_size} bytes, more than the cache may have")
        return file.read(status.st_size)


def write(path: Path, content: bytes) -> None:
    """Writes a file that appears whole or not at all, readable for this user only. Raises
    OSError."""
    with atomic_file.replacing(path, PARTIAL) as file:
        file.write(content)


def _check(status: os.stat_result, name: str, mode: str) -> None:
    if status.st_uid != os.geteuid():
        raise ForeignFile(f"{name} belongs to user {status.st_uid}, not to this one")
    if status.st_mode & _OTHERS_WRITE:
        raise ForeignFile(f"others may write to {name} (`chmod {mode} {name}` would end that)")
