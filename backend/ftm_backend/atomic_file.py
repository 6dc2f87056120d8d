"""Files that appear whole or not at all, whatever ends the writer.

The content goes to a partial file beside the target, which is renamed at the end. The writer holds
a lock on it, so that `remove_abandoned` can tell the partial file of a killed writer from one that
is being written.
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

__all__ = ["remove_abandoned", "replacing"]

_WITHOUT_LOCKS = 3600.0
"""Seconds after which a partial file counts as abandoned where the file system has no locks."""


@contextlib.contextmanager
def replacing(path: Path, prefix: str) -> Iterator[IO[bytes]]:
    """A file to write to, readable for this user only, which replaces `path` when the block ends
    without an exception.

    Args:
        path: The target.
        prefix: What the name of the partial file begins with; it lies in the same directory.

    Raises:
        OSError: It cannot be made or renamed.
    """
    descriptor, partial = _locked(path.parent, prefix)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.replace(partial, path)  # before the lock is gone
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def remove_abandoned(directory: Path, prefix: str) -> None:
    """Removes the partial files that no process writes to any more; one that cannot be removed
    stays."""
    with contextlib.suppress(OSError), os.scandir(directory) as files:
        for file in files:
            if file.name.startswith(prefix):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(file.path)


def _locked(directory: Path, prefix: str) -> tuple[int, str]:
    """A new partial file and its lock, if there are locks."""
    while True:
        descriptor, partial = tempfile.mkstemp(prefix=prefix, dir=directory)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, partial
        os.close(descriptor)  # another process took it for abandoned before it was locked


def _remove_if_abandoned(partial: str) -> None:
    descriptor = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(partial)
    except BlockingIOError:
        pass  # somebody writes to it
    except OSError:
        if os.fstat(descriptor).st_mtime < time.time() - _WITHOUT_LOCKS:
            os.unlink(partial)
    finally:
        os.close(descriptor)
