"""A process that another one has made as a copy of itself: no child of this one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess

__all__ = ["ForkedProcess"]


class ForkedProcess:
    """What of `subprocess.Popen` can be said of it.

    Args:
        maker: the id of the process that makes it, which is taken for its own until it has said
            that.
    """

    def __init__(self, maker: int) -> None:
        self.pid = maker
        self.returncode: int | None = None
        """0 once it has ended: of what, only its maker is told."""
        self._descriptor = -1

    def said(self, pid: int) -> None:
        """Its own id."""
        self.pid = pid
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.returncode = 0

    def poll(self) -> int | None:
        """None while it runs, or has not said that it does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def kill(self) -> None:
        """Ends it; one that has not said its id ends when its requests do."""
        if self._descriptor >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        """Returns when it has ended; at once where its id is not known. Raises
        subprocess.TimeoutExpired."""
        if self._descriptor < 0:
            return
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        if not waiting.poll(None if timeout is None else timeout * 1000):
            assert timeout is not None
            raise subprocess.TimeoutExpired("ftm_backend.compile_server", timeout)
        os.close(self._descriptor)
        self._descriptor, self.returncode = -1, 0
