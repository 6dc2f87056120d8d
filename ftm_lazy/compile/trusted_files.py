"""Reading of files that only this user can have written.

A cached program runs in this process, so another user's file would be code injection. A file is
accepted only if this user owns it, no one else may write to it, and the same holds for its
directory. Special files are rejected: reading a pipe might never end.
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
"""Prefix of temporary files that are being written."""


class ForeignFile(Exception):
    """Another user may have written the file; the message has the reason and the remedy."""


class UnreadableFile(Exception):
    """The file cannot have been made by `write`; the message has the reason."""


def check_directory(directory: Path) -> None:
    """Check that only this user may write to the directory.

    Raises:
        ForeignFile: Another user owns it or may write to it.
        OSError: It does not exist (FileNotFoundError) or is a file (NotADirectoryError).
    """
    status = os.stat(directory)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    _check(status, str(directory), "700")


def read(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises:
        ForeignFile: Another user owns it or may write to it.
        UnreadableFile: It is a link, a special file or larger than `limit`.
        OSError: It cannot be opened (FileNotFoundError if it does not exist).
    """
    if path.is_symlink():
        raise UnreadableFile("it is a link")
    # O_NONBLOCK: opening a pipe would otherwise wait for its writer
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("it is not a regular file")
        _check(status, str(path), "600")
        if status.st_size > limit:
            raise UnreadableFile(f"it has {status.st_size} bytes, more than FTM_CACHE_SIZE")
        return file.read(status.st_size)


def write(path: Path, content: bytes) -> None:
    """Write a file atomically, with access for this user only.

    Raises:
        OSError: The file cannot be written.
    """
    with atomic_file.replacing(path, PARTIAL) as file:
        file.write(content)


def _check(status: os.stat_result, name: str, mode: str) -> None:
    if status.st_uid != os.geteuid():
        raise ForeignFile(f"{name} belongs to user {status.st_uid}, not to this one")
    if status.st_mode & _OTHERS_WRITE:
        raise ForeignFile(f"others may write to {name} (`chmod {mode} {name}` would end that)")
