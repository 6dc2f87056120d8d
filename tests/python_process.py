"""Runs Python programs in processes that have imported PyTorch and ftm already.

Importing both takes 1.5 s of CPU time. A server process imports them once, without starting the
device, so that it may fork: each program runs in a fork of it. A server can also import a library
that takes as long. Use `subprocess` instead where the import itself, options of Python or variables
of PyTorch matter.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

__all__ = ["Program", "run_python"]


def run_python(
    code: str, *arguments: str, timeout: float = 120, library: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` as `python -c` would, and return its status and output.

    Args:
        code: The program.
        arguments: `sys.argv[1:]` of the program.
        timeout: Seconds after which the program is killed.
        library: A module that the server imports besides, for all programs that name it.
        environment: Variables besides those of this process. ftm reads its settings at first use.

    Raises:
        subprocess.TimeoutExpired: The program was killed.
    """
    return Program(code, arguments, library, environment).wait(timeout)


class Program:
    """A program that runs in a fork of a server; see `run_python`."""

    def __init__(
        self,
        code: str | Path,
        arguments: tuple[str, ...] = (),
        library: str = "",
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
        at_import: Mapping[str, str] | None = None,
    ) -> None:
        """Start the program: a text, or a file that is run as `python FILE` would.

        Args:
            code, arguments, library, environment: As those of `run_python`.
            folder: The program's working directory; by default that of this process.
            at_import: Variables that PyTorch or ftm reads when it is imported. There is a server
                for each of their values.
        """
        self._command = [sys.executable, *(["-c"] if isinstance(code, str) else []), str(code)]
        self._command += arguments
        self._texts: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(2)]
        self._status, theirs = socket.socketpair()
        request = {
            "code": code if isinstance(code, str) else None,
            "file": str(code) if isinstance(code, Path) else None,
            "arguments": arguments,
            "environment": {**os.environ, **(at_import or {}), **(environment or {})},
            "folder": str(folder or Path.cwd()),
        }
        data = json.dumps(request).encode()
        files = [*(text.fileno() for text in self._texts), theirs.fileno()]
        connection, _ = _server(library, **(at_import or {}))
        socket.send_fds(connection, [len(data).to_bytes(8)], files)
        connection.sendall(data)
        theirs.close()
        self.process = int.from_bytes(_receive(self._status, 8))
        """Its id."""

    def fileno(self) -> int:
        """Return a file that is readable once the program has ended, for `select`."""
        return self._status.fileno()

    def kill(self) -> None:
        """End the program at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Wait for the program's end, once; see `run_python` for the result and errors."""
        self._status.settimeout(timeout)
        try:
            status = int.from_bytes(_receive(self._status, 8), signed=True)
        except TimeoutError:
            self.kill()
            self._status.settimeout(None)
            _receive(self._status, 8)
            raise subprocess.TimeoutExpired(self._command, timeout or 0) from None
        finally:
            self._status.close()
        shown = []
        for text in self._texts:
            with text:
                text.seek(0)
                shown.append(text.read().decode())
        return subprocess.CompletedProcess(self._command, status, *shown)


@cache
def _server(library: str, **environment: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a server of this process. It ends when its end of the connection closes."""
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    server = subprocess.Popen(
        [sys.executable, __file__, str(number), library],
        pass_fds=[number],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    return ours, server


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError("the server of Python processes has ended")
        data += part
    return data


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return it in the program's process, and None in the server at its end.

    The program is a child of a process that waits for it, so that the server can start others.
    """
    while True:
        length, files, *_ = socket.recv_fds(connection, 8, 3)
        if not length:
            return None
        request: dict[str, Any] = json.loads(_receive(connection, int.from_bytes(length)))
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
    connection.close()
    child = os.fork()
    if child == 0:
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        for file in files:
            os.close(file)
        return request
    with socket.socket(fileno=files[2]) as answer:
        answer.sendall(child.to_bytes(8))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer.sendall(status.to_bytes(8, signed=True))
    os._exit(0)


def _run(request: dict[str, Any]) -> None:
    """Run a program in this process."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.stdout.reconfigure(line_buffering=True)  # a program may end by os._exit
    sys.argv = [request["file"] or "-c", *request["arguments"]]
    if request["file"]:
        sys.path[0] = str(Path(request["file"]).parent)
        runpy.run_path(request["file"], run_name="__main__")
    else:
        sys.path[0] = ""
        exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    import torch  # noqa: F401  (for the programs)

    import ftm_lazy  # noqa: F401

    if sys.argv[2]:
        importlib.import_module(sys.argv[2])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A program's collections, and that of its end, leave alone what the server imported. Otherwise
    # they visit, and so copy, all pages that the processes share: 0.7 of 1.1 s with Dynamo.
    gc.freeze()
    gc.collect()  # else full collections wait for a quarter as many objects as the server has
    _request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if _request is not None:
        _run(_request)
