"""The compiler as a separate process: ``python -m ftm_backend.compile_server 3 4``.

The process imports no torch, so it starts fast, and killing it does not affect the user's program.
It reads requests from the first file descriptor and writes answers to the second. Each further pair
of descriptors gets a forked copy of the process, after the imports; the copy works in the same way
and outlives its parent.

Messages are frames (`pack`, `unpack`): a header in JSON and a body of bytes.

- Greeting ``{"source": "...", "pid": 123}``: `source_hash` of the running code, and process ID.
- Request ``{"id": 7, "machine": "host", "cores": 2, "texts": false, "timeout": 300.0}``; the body
  is the trace. ``"shelf": true`` if the client stores compiled functions.
- Request ``{"id": 7, "infer": true, "timeout": 300.0}``; the body is a trace with symbolic sizes of
  parameters. The answer's body is the trace with all sizes, empty if none can vary.
- Question ``{"id": 7, "wanted": ["3f0c...", ...]}``: requests these functions from the client.
- Reply ``{"id": 7, "functions": [["3f0c...", 2100], ...]}``: digest and bytes of each function; the
  body has the functions in this order.
- Answer ``{"id": 7, "ok": true, "seconds": 0.8, "size": 4711, "functions": [...]}``; the body is
  the executable (`Executable.to_bytes`) of ``size`` bytes, then functions that the client lacks.
- Answer ``{"id": 7, "ok": false, "error": "..."}`` without a body.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import itertools
import json
import os
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ftm_backend import plugins

_PREFIX = struct.Struct("<IQ")  # bytes of the header, bytes of the body
_GRACE = 10.0  # seconds after the client's own time limit
_ANSWERS_PER_FULL_COLLECTION = 64

Header = dict[str, Any]
"""What a frame says, as JSON."""

Requests = queue.SimpleQueue[tuple[Header, bytes]]
"""Frames that were received."""


def pack(header: Header, body: bytes = b"") -> bytes:
    """Return a frame."""
    text = json.dumps(header).encode()
    return _PREFIX.pack(len(text), len(body)) + text + body


def unpack(received: bytearray) -> tuple[Header, bytes] | None:
    """Remove the first frame from ``received``, and return it; None if it is incomplete."""
    if len(received) < _PREFIX.size:
        return None
    header, body = _PREFIX.unpack_from(received)
    begin, end = _PREFIX.size + header, _PREFIX.size + header + body
    if len(received) < end:
        return None
    frame = json.loads(received[_PREFIX.size : begin]), bytes(received[begin:end])
    del received[:end]
    return frame


def join(functions: Mapping[str, bytes]) -> tuple[list[tuple[str, int]], bytes]:
    """Return digest and size of each function for a header, and the bytes of all."""
    return [(digest, len(content)) for digest, content in functions.items()], b"".join(
        functions.values()
    )


def split(listed: Iterable[tuple[str, int]], body: bytes) -> dict[str, bytes]:
    """Return functions by digest; the inverse of `join`."""
    functions, at = {}, 0
    for digest, size in listed:
        functions[digest], at = body[at : at + size], at + size
    return functions


class _Shelf:
    """The compiled functions that the client stores.

    Between its request and the answer, the client sends only replies.
    """

    def __init__(self, number: int, requests: Requests, answers: BinaryIO) -> None:
        self._number, self._requests, self._answers = number, requests, answers
        self.made: dict[str, bytes] = {}

    def get(self, digests: Sequence[str]) -> dict[str, bytes]:
        """Request functions from the client; return those that it has."""
        self._answers.write(pack({"id": self._number, "wanted": list(digests)}))
        self._answers.flush()
        header, body = self._requests.get()
        return split(header["functions"], body)

    def put(self, functions: Mapping[str, bytes]) -> None:
        """Add functions to the answer."""
        self.made.update(functions)


@functools.cache
def source_hash() -> str:
    """Return a hash of everything that a compiled program depends on besides its trace.

    This is the compiler's source, the machine's interface, and op records of other packages. It is
    part of the key of compiled programs. MLIR is no part of it: its bindings only verify and
    convert text.
    """
    root = Path(__file__).parent
    state = hashlib.blake2b(digest_size=16)
    state.update(f"{plugins.identity()}\n".encode())
    headers = [*root.glob("machine/*.h"), *root.glob("machine/include/*.h")]
    for path in sorted([*root.rglob("*.py"), *headers]):
        content = path.read_bytes()
        state.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()


def _read_requests(source: int, requests: Requests) -> None:
    """Queue requests; end the process when the client closes the connection."""
    received = bytearray()
    while chunk := os.read(source, 1 << 20):
        received += chunk
        while frame := unpack(received):
            requests.put(frame)
    os._exit(0)


def _compile(header: Header, body: bytes, shelf: _Shelf | None) -> bytes:
    from ftm_backend import driver
    from ftm_backend.compile_options import CompileOptions
    from ftm_backend.ir.trace.trace import Trace

    if header.get("infer"):
        return str(driver.infer_sizes(Trace.parse(body.decode())) or "").encode()
    options = CompileOptions(
        machine=header["machine"],
        cores=header["cores"],
        tune=header["tune"],
        keep_texts=header["texts"],
    )
    return driver.compile(body.decode(), options, shelf).to_bytes()


def _answer(header: Header, body: bytes, requests: Requests, answers: BinaryIO) -> bytes:
    """Compile one request; an exception becomes the answer's error."""
    begin = time.perf_counter()
    # ends a compilation that hangs in MLIR after the client was killed
    signal.setitimer(signal.ITIMER_REAL, header["timeout"] + _GRACE)
    shelf = _Shelf(header["id"], requests, answers) if header.get("shelf") else None
    try:
        executable = _compile(header, body, shelf)
    except Exception as error:
        message = str(error) if type(error).__name__ == "CompileError" else traceback.format_exc()
        return pack({"id": header["id"], "ok": False, "error": message})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    listed, functions = join(shelf.made if shelf is not None else {})
    said = {
        "id": header["id"],
        "ok": True,
        "seconds": time.perf_counter() - begin,
        "size": len(executable),
        "functions": listed,
    }
    return pack(said, executable + functions)


def _warm_up() -> None:
    """Import what every compilation needs."""
    from ftm_backend import driver  # noqa: F401
    from ftm_backend.frontend import ops  # noqa: F401


def _greet(answers: BinaryIO) -> None:
    answers.write(pack({"source": source_hash(), "pid": os.getpid()}))
    answers.flush()


def _open(source: int, answers: int) -> tuple[Requests, BinaryIO]:
    """Start reading requests from ``source``, and open ``answers`` for writing."""
    requests: Requests = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(source, requests), daemon=True).start()
    return requests, os.fdopen(answers, "wb")


def _serve(requests: Requests, answers: BinaryIO) -> None:
    for count in itertools.count(1):
        header, body = requests.get()
        answers.write(_answer(header, body, requests, answers))
        answers.flush()
        # Generation 0 has what this answer has left, the others what caches keep.
        gc.collect(0 if count % _ANSWERS_PER_FULL_COLLECTION else 2)


def _close(pairs: Iterable[tuple[int, int]]) -> None:
    for pair in pairs:
        for descriptor in pair:
            os.close(descriptor)


def main(words: list[str]) -> None:
    """Serve until the client closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # no zombies: the parent does not wait for its copies
    numbers = [int(word) for word in words]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    requests, answers = _open(*pairs[0])
    _greet(answers)
    _warm_up()
    # The records of a compilation live until it ends: collecting garbage meanwhile wastes a tenth
    # of the time. Cycles are collected after each answer; freeze() exempts imported modules.
    gc.disable()
    gc.freeze()
    for k, pair in enumerate(pairs[1:], 1):
        if os.fork() == 0:  # the copy does not have the thread that reads requests
            answers.close()
            os.close(pairs[0][0])
            _close(pairs[k + 1 :])
            requests, answers = _open(*pair)
            _greet(answers)
            break
        _close([pair])
    _serve(requests, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
