"""The compiler as a process of its own: ``python -m ftm_backend.compile_server 3 4``.

It reads requests from the first of these descriptors and writes answers to the second, both as
frames (`pack`, `unpack`): a JSON header and a body of bytes. Standard input and output have no part
in it. For each further pair of descriptors it makes a copy of itself once it has imported what
compiling needs; that one serves them in the same way, and outlives it.

    request   {"id": 7, "machine": "host", "cores": 2, "texts": false, "timeout": 300.0}, body: the trace's text
              where the client keeps functions of programs (`known`), {..., "shelf": true} {"id": 7,
              "infer": true, "timeout": 300.0}, body: a trace in which some sizes are symbols; the
              answer's body is the trace in which all that follow from them are
              (`frontend.symbolic_shape_inference`), empty where none can vary
    question {"id": 7, "wanted": ["3f0c...", ...]}: which of these functions does the client have?
    reply {"id": 7, "functions": [["3f0c...", 2100], ...]}, body: those, one after the other, of so
    many bytes answer {"id": 7, "ok": true, "seconds": 0.8, "size": 4711, "functions": [...]}, body:
    the executable (`Executable.to_bytes`)
              of that size, then functions that the client has not
              {"id": 7, "ok": false, "error": "..."}, no body
    greeting  {"source": "...", "pid": 123}: `source_hash()` of the code that this process runs, and its id

A process that imports no torch starts fast and can be killed at any time; the user's program goes
on.
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
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

from ftm_backend import plugins

__all__ = ["join", "main", "pack", "source_hash", "split", "unpack"]

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


def join(functions: Mapping[str, bytes]) -> tuple[list[list[Any]], bytes]:
    """What a header says of functions, and the bytes of all."""
    return [[digest, len(content)] for digest, content in functions.items()], b"".join(
        functions.values()
    )


def split(listed: Iterable[Sequence[Any]], body: bytes) -> dict[str, bytes]:
    """The reverse of `join`."""
    functions, at = {}, 0
    for digest, size in listed:
        functions[digest], at = body[at : at + size], at + size
    return functions


class _Shelf:
    """Functions that the client keeps. Between its request and the answer it sends nothing but what
    it is asked for."""

    def __init__(self, number: int, requests: queue.SimpleQueue[Any], answers: BinaryIO) -> None:
        self._number, self._requests, self._answers = number, requests, answers
        self.made: dict[str, bytes] = {}

    def get(self, digests: Sequence[str]) -> dict[str, bytes]:
        """Asks the client."""
        self._answers.write(pack({"id": self._number, "wanted": list(digests)}))
        self._answers.flush()
        header, body = self._requests.get()
        return split(header["functions"], body)

    def put(self, functions: Mapping[str, bytes]) -> None:
        """Goes with the answer."""
        self.made.update(functions)


@functools.cache
def source_hash() -> str:
    """A hash of all that decides what a trace compiles to: the compiler's own source, the machine's
    interface, the version of MLIR, op records of other packages. Part of the key of compiled
    programs."""
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


def _compile(header: dict[str, Any], body: bytes, shelf: _Shelf | None) -> bytes:
    from ftm_backend import driver
    from ftm_backend.compile_options import CompileOptions

    if header.get("infer"):
        return (driver.infer_sizes(body.decode()) or "").encode()
    options = CompileOptions(
        machine=header["machine"], cores=header["cores"], keep_texts=header["texts"]
    )
    return driver.compile(body.decode(), options, shelf).to_bytes()


def _answer(
    header: dict[str, Any], body: bytes, requests: queue.SimpleQueue[Any], answers: BinaryIO
) -> bytes:
    """Compiles one request; an exception becomes the answer's error."""
    begin = time.perf_counter()
    # If the client is killed while MLIR holds the interpreter, nobody else would end a compilation
    # that hangs.
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
    """Imports what every compilation needs."""
    from ftm_backend import driver  # noqa: F401
    from ftm_backend.frontend import ops  # noqa: F401


def _greet(answers: BinaryIO) -> None:
    answers.write(pack({"source": source_hash(), "pid": os.getpid()}))
    answers.flush()


def _open(source: int, answers: int) -> tuple[queue.SimpleQueue[Any], BinaryIO]:
    """What comes from the first descriptor, and what is written to the second."""
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(source, requests), daemon=True).start()
    return requests, os.fdopen(answers, "wb")


def _serve(requests: queue.SimpleQueue[Any], answers: BinaryIO) -> None:
    while True:
        header, body = requests.get()
        answers.write(_answer(header, body, requests, answers))
        answers.flush()
        gc.collect()


def _close(pairs: Iterable[tuple[int, int]]) -> None:
    for pair in pairs:
        for descriptor in pair:
            os.close(descriptor)


def main(words: list[str]) -> None:
    """Serves until the requests end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for copies
    numbers = [int(word) for word in words]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    requests, answers = _open(*pairs[0])
    _greet(answers)
    _warm_up()
    # A compilation makes records that live until it ends: looking for garbage among them is a tenth
    # of its time. What is in a circle is collected when the answer is on its way; what was imported
    # is left out.
    gc.disable()
    gc.freeze()
    for k, pair in enumerate(pairs[1:], 1):
        if os.fork() == 0:  # the thread that reads this one's requests is none of the copy's
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
