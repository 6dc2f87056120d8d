"""A process that a compiler process has forked: a grandchild of this process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess

__all__ = ["ForkedProcessHandle"]


class ForkedProcessHandle:
    """The part of `subprocess.Popen`'s interface that works for a process that is not our child.

    Args:
        parent: Process id of the process that forks it. `pid` is this id until `set_pid`.
    """

    def __init__(self, parent: int) -> None:
        self.pid = parent
        self.returncode: int | None = None
        """0 once it has ended; only its parent gets the actual exit code."""
        self._descriptor = -1

    def set_pid(self, pid: int) -> None:
        """Set its process id, which it sends in its first frame."""
        self.pid = pid
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.returncode = 0

    def poll(self) -> int | None:
        """Return 0 if it has ended; None while it runs or its process id is unknown."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def kill(self) -> None:
        """Kill it; if its process id is unknown, it ends when its request pipe is closed."""
        if self._descriptor >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended; return at once if its process id is unknown.

        Raises:
            subprocess.TimeoutExpired: It still runs after `timeout` seconds.
        """
        if self._descriptor < 0:
            return
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            assert timeout is not None
            raise subprocess.TimeoutExpired("ftm_backend.compile_server", timeout)
        os.close(self._descriptor)
        self._descriptor, self.returncode = -1, 0
