"""How many bytes the files of a cache take, without looking at them all.

The sum is kept in a small file beside them. It is raised before a file is written, so that it may
be too large, after a crash or where a file replaced another, and is never too small. Where it goes
over the limit the directory is gone through, the longest unused files are removed, some more than
needed, and the sum is right again: storing costs the same whatever is there already.
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
"""What the names of the cache's files end with."""

_NAME = ".total"
_SUM = struct.Struct("<Q")
_SPARE = 16  # one part in so many of the limit is freed beyond what is needed
# how often, and after how many seconds, a lock that another process holds is asked for
_TRIES, _PAUSE = 100, 0.01


def make_room(directory: Path, size: int, limit: int) -> None:
    """Counts `size` more bytes, after removing what would not fit beside them into `limit`. Raises
    OSError."""
    with _locked(directory / _NAME) as descriptor:
        content = os.pread(descriptor, _SUM.size, 0)
        total = _SUM.unpack(content)[0] if len(content) == _SUM.size else None
        if total is None or total + size > limit:
            total = _remove_oldest(directory, limit - size, limit // _SPARE)
        os.pwrite(descriptor, _SUM.pack(total + size), 0)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """A descriptor of the file with the sum, which no other process has meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor):
            # who holds it writes to nothing, and the next one counts anew
            path.unlink(missing_ok=True)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:  # a file system without locks
            break
    return False


def _remove_oldest(directory: Path, room: int, spare: int) -> int:
    """Removes the longest unused files until all others take at most `room` bytes; the bytes that
    they take.

    Where it has to remove any, it goes on until `spare` bytes more are free.
    """
    entries = []
    with os.scandir(directory) as files:
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                status = file.stat(follow_symlinks=False)
                if file.name.endswith((PROGRAM, FUNCTION)):
                    entries.append((status.st_mtime_ns, status.st_size, file.path))
    total = sum(size for _, size, _ in entries)
    if total <= room:
        return total
    for _, size, path in sorted(entries):
        if total <= room - spare:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
    return total
