"""Size limit of the disk cache, enforced without scanning the directory at each store.

The total size is kept in the file ``.total`` of the same directory. It is increased before a file
is written, so after a crash or a replaced file it is too large, but never too small. If it exceeds
the limit, the directory is scanned, the least recently used files are removed with some slack, and
the total is corrected. So the amortized cost of a store does not depend on the number of files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["FUNCTION", "PROGRAM", "make_room"]

PROGRAM, FUNCTION = ".program", ".function"
"""Suffixes of the cache's files."""

_TOTAL_FILE = ".total"
_TOTAL = struct.Struct("<Q")
_SLACK = 16  # an eviction frees 1/16 of the limit more than needed
_LOCK_TRIES, _LOCK_PAUSE = 100, 0.01  # seconds; together 1 s


def make_room(directory: Path, size: int, limit: int) -> None:
    """Reserve `size` bytes in the total, and evict files if it would exceed `limit`.

    Args:
        directory: The cache's directory.
        size: Bytes of the file to be written.
        limit: Bytes that all files may use.

    Raises:
        OSError: The file with the total cannot be read or written.
    """
    with _locked(directory / _TOTAL_FILE) as descriptor:
        content = os.pread(descriptor, _TOTAL.size, 0)
        total = _TOTAL.unpack(content)[0] if len(content) == _TOTAL.size else None
        if total is None or total + size > limit:
            total = _remove_oldest(directory, limit - size, limit // _SLACK)
        os.pwrite(descriptor, _TOTAL.pack(total + size), 0)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open and lock the file with the total; yield its descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor):
            # the lock's holder now writes to an unlinked file, and the next process counts anew
            path.unlink(missing_ok=True)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE)
        except OSError:  # the file system has no locks
            break
    return False


def _remove_oldest(directory: Path, room: int, slack: int) -> int:
    """Remove the least recently used files if all files together exceed `room` bytes.

    It then continues until they use at most `room - slack` bytes.

    Returns:
        The bytes of the remaining files.
    """
    entries = []
    with os.scandir(directory) as files:
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # another process removed it
                status = file.stat(follow_symlinks=False)
                if file.name.endswith((PROGRAM, FUNCTION)):
                    entries.append((status.st_mtime_ns, status.st_size, file.path))
    total = sum(size for _, size, _ in entries)
    if total <= room:
        return total
    for _, size, path in sorted(entries):
        if total <= room - slack:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
    return total
