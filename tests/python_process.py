"""Runs Python programs in processes that have imported PyTorch and ftm already.

Importing both takes 1.5 s of CPU time. A server process imports them once, without starting the
device, so that it has one thread and may fork: each program runs in a fork of it. A server can also
import a library that takes as long. Use `subprocess` instead where the import itself, options of
Python or variables of PyTorch matter.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from typing import Any

__all__ = ["run_python"]


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
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        request = {
            "code": code,
            "arguments": ["-c", *arguments],
            "environment": {**os.environ, **environment},
            "folder": os.getcwd(),
        }
        connection, _ = _server(library)
        data = json.dumps(request).encode()
        socket.send_fds(connection, [len(data).to_bytes(8)], [output.fileno(), errors.fileno()])
        connection.sendall(data)
        child = int.from_bytes(_receive(connection, 8))
        connection.settimeout(timeout)
        try:
            status = int.from_bytes(_receive(connection, 8), signed=True)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            connection.settimeout(None)
            _receive(connection, 8)
            raise subprocess.TimeoutExpired(code, timeout) from None
        finally:
            connection.settimeout(None)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess([sys.executable, "-c", code, *arguments], status, *texts)


@cache
def _server(library: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a server of this process. It ends when its end of the connection closes."""
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    server = subprocess.Popen(
        [sys.executable, __file__, str(number), library],
        pass_fds=[number],
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
    """Fork for each request; return it in the child, and None in the server at its end."""
    while True:
        length, files, *_ = socket.recv_fds(connection, 8, 2)
        if not length:
            return None
        request: dict[str, Any] = json.loads(_receive(connection, int.from_bytes(length)))
        child = os.fork()
        if child == 0:
            connection.close()
            os.dup2(files[0], 1)
            os.dup2(files[1], 2)
            for file in files:
                os.close(file)
            return request
        for file in files:
            os.close(file)
        connection.sendall(child.to_bytes(8))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(status.to_bytes(8, signed=True))


if __name__ == "__main__":
    import torch  # noqa: F401  (for the programs)

    import ftm_lazy  # noqa: F401

    if sys.argv[2]:
        importlib.import_module(sys.argv[2])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if _request is not None:
        sys.argv = _request["arguments"]
        sys.path[0] = ""
        os.environ.clear()
        os.environ.update(_request["environment"])
        os.chdir(_request["folder"])
        exec(compile(_request["code"], "<string>", "exec"), {"__name__": "__main__"})
