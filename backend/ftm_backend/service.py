"""The compiler as a process of its own: ``python -m ftm_backend.service 3 4``.

It reads requests from the first of these descriptors and writes answers to the second, both as frames (`pack`,
`unpack`): a JSON header and a body of bytes.  Standard input and output have no part in it.

    request   {"id": 7, "machine": "host", "cores": 2, "texts": false, "timeout": 300.0}, body: the trace's text
    answer    {"id": 7, "ok": true, "seconds": 0.8}, body: the executable (`Executable.to_bytes`)
              {"id": 7, "ok": false, "error": "..."}, no body
    greeting  {"source": "..."}: `source_hash()` of the code that this process runs

A process that imports no torch starts fast and can be killed at any time; the user's program goes on.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import os
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from ftm_backend import plugins

__all__ = ["main", "pack", "source_hash", "unpack"]

_PREFIX = struct.Struct("<IQ")  # bytes of the header, bytes of the body
_GRACE = 10.0  # seconds by which the client's own time limit comes first


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame."""
    text = json.dumps(header).encode()
    return _PREFIX.pack(len(text), len(body)) + text + body


def unpack(received: bytearray) -> tuple[dict[str, Any], bytes] | None:
    """Takes the first frame off the front of `received`; None while it is not there as a whole."""
    if len(received) < _PREFIX.size:
        return None
    header, body = _PREFIX.unpack_from(received)
    begin, end = _PREFIX.size + header, _PREFIX.size + header + body
    if len(received) < end:
        return None
    frame = json.loads(received[_PREFIX.size : begin]), bytes(received[begin:end])
    del received[:end]
    return frame


@functools.cache
def source_hash() -> str:
    """A hash of all that decides what a trace compiles to: the compiler's own source, the machine's interface,
    the version of MLIR, op records of other packages.  Part of the key of compiled programs."""
    root = Path(__file__).parent
    state = hashlib.blake2b(digest_size=16)
    state.update(f"{metadata.version('torch-mlir')} {plugins.identity()}\n".encode())
    headers = [*root.glob("machine/*.h"), *root.glob("machine/include/*.h")]
    for path in sorted([*root.rglob("*.py"), *headers]):
        content = path.read_bytes()
        state.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()


def _read_requests(source: int, requests: queue.SimpleQueue[Any]) -> None:
    """Passes frames on, and ends the process when the client is gone, whatever it is doing."""
    received = bytearray()
    while chunk := os.read(source, 1 << 20):
        received += chunk
        while frame := unpack(received):
            requests.put(frame)
    os._exit(0)


def _compile(header: dict[str, Any], body: bytes) -> bytes:
    from ftm_backend import driver
    from ftm_backend.options import Options

    options = Options(machine=header["machine"], cores=header["cores"], keep_texts=header["texts"])
    return driver.compile(body.decode(), options).to_bytes()


def _answer(header: dict[str, Any], body: bytes) -> bytes:
    """Compiles one request; an exception becomes the answer's error."""
    begin = time.perf_counter()
    # If the client is killed while MLIR holds the interpreter, nobody else would end a compilation that hangs.
    signal.setitimer(signal.ITIMER_REAL, header["timeout"] + _GRACE)
    try:
        executable = _compile(header, body)
    except Exception as error:
        message = str(error) if type(error).__name__ == "CompileError" else traceback.format_exc()
        return pack({"id": header["id"], "ok": False, "error": message})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return pack({"id": header["id"], "ok": True, "seconds": time.perf_counter() - begin}, executable)


def _warm_up() -> None:
    """Imports what every compilation needs."""
    from ftm_backend import driver  # noqa: F401
    from ftm_backend.frontend import ops  # noqa: F401


def main(words: list[str]) -> None:
    """Serves until the requests end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    source, answers = int(words[0]), os.fdopen(int(words[1]), "wb")
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(source, requests), daemon=True).start()
    answers.write(pack({"source": source_hash()}))
    answers.flush()
    _warm_up()
    # A compilation makes records that live until it ends: looking for garbage among them is a tenth of its time. What is in a
    # circle is collected when the answer is on its way; what was imported is left out.
    gc.disable()
    gc.freeze()
    while True:
        answers.write(_answer(*requests.get()))
        answers.flush()
        gc.collect()


if __name__ == "__main__":
    main(sys.argv[1:])
