"""Write files atomically: a reader sees the whole file or none, even if the writer is killed.

The content goes to a partial file in the same directory, which is renamed at the end. The writer
holds a lock on it, so `remove_abandoned` can distinguish a killed writer's partial file from one in
use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_WITHOUT_LOCKS = 3600.0
"""Age in seconds at which a partial file counts as abandoned if the file system has no locks."""


@contextlib.contextmanager
def replacing(path: Path, prefix: str) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` when the block ends without an exception.

    Only this user can read it.

    Args:
        path: The target.
        prefix: Prefix of the partial file's name, which lies in the same directory.

    Raises:
        OSError: The file cannot be created or renamed.
    """
    descriptor, partial = _locked(path.parent, prefix)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.replace(partial, path)  # while the lock is held
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def remove_abandoned(directory: Path, prefix: str) -> None:
    """Remove partial files that no process is writing; skip those that cannot be removed."""
    with contextlib.suppress(OSError), os.scandir(directory) as files:
        for file in files:
            if file.name.startswith(prefix):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(file.path)


def _locked(directory: Path, prefix: str) -> tuple[int, str]:
    """Create a partial file and lock it if the file system has locks."""
    while True:
        descriptor, partial = tempfile.mkstemp(prefix=prefix, dir=directory)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, partial
        os.close(descriptor)  # remove_abandoned of another process ran between the two calls


def _remove_if_abandoned(partial: str) -> None:
    descriptor = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(partial)
    except BlockingIOError:
        pass  # a process is writing it
    except OSError:
        if os.fstat(descriptor).st_mtime < time.time() - _WITHOUT_LOCKS:
            os.unlink(partial)
    finally:
        os.close(descriptor)
