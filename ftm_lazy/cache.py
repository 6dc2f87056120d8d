"""Compiled programs on disk: one file for each, shared by all processes of the user.

A file holds its whole key beside the program, and a checksum over both, so that a damaged file, or another key
with the same digest, is a miss and never a wrong program.  Files appear whole or not at all (written aside,
then renamed), so any number of processes may read and write at once.  The time of the last use is the file's
modification time; when the directory outgrows its limit, the longest unused files go.  Nothing that goes wrong
here stops the user's program: it is warned of, and compiling goes on without the file.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import struct
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DiskCache", "Key"]

_MAGIC = b"ftm cache 1\n"
_CHECKSUM = 32
_LENGTH = struct.Struct("<Q")
_SUFFIX = ".program"
_ABANDONED = 3600.0  # seconds after which a partly written file has no writer any more


@dataclass(frozen=True)
class Key:
    """What a compiled program depends on, as named parts; nothing of the process is among them.

    Args:
        trace: canonical text of the trace.
        compiler: hash of the compiler's own source (`ftm_backend.service.source_hash`).
        machine: the preset that it is compiled for.
        cores: of the machine.
    """

    trace: str
    compiler: str
    machine: str
    cores: int

    @functools.cached_property
    def text(self) -> bytes:
        """All parts with their names, as stored in the file and compared on a hit."""
        return json.dumps(dict(sorted(vars(self).items()))).encode()

    @functools.cached_property
    def digest(self) -> str:
        """Names the file."""
        return hashlib.blake2b(self.text, digest_size=20).hexdigest()


class DiskCache:
    """A directory of compiled programs.

    Args:
        directory: made when the first program is stored; None stores and finds nothing.
        limit: bytes that all files together may take.
    """

    def __init__(self, directory: Path | None, limit: int) -> None:
        self._directory = directory
        self._limit = limit

    def path(self, key: Key) -> Path | None:
        """Where the program of `key` is, or would be."""
        return self._directory / (key.digest + _SUFFIX) if self._directory else None

    def is_empty(self) -> bool:
        """Whether there is no program at all in the directory."""
        try:
            return self._directory is None or not any(self._directory.glob("*" + _SUFFIX))
        except OSError:
            return True

    def get(self, key: Key) -> bytes | None:
        """The program that was stored under `key`; None if there is none, or none that is whole."""
        path = self.path(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _warn(f"cannot read {path}: {error.strerror}; the program is compiled instead")
            return None
        parts = _parse(content)
        if parts is None:
            _warn(f"{path} is damaged; the file is removed and the program compiled instead")
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        stored, program = parts
        if stored != key.text:
            return None
        with contextlib.suppress(OSError):  # a cache that may not be written still serves
            os.utime(path)
        return program

    def put(self, key: Key, program: bytes) -> None:
        """Stores `program` under `key`, and removes what no longer fits."""
        path = self.path(key)
        if path is None:
            return
        body = _LENGTH.pack(len(key.text)) + key.text + program
        content = _MAGIC + hashlib.blake2b(body, digest_size=_CHECKSUM).digest() + body
        if len(content) > self._limit:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, content)
            self._evict()
        except OSError as error:
            _warn(
                f"cannot store a compiled program in {path.parent}: {error.strerror}; it will be compiled again"
                f" next time (FTM_CACHE_DIR names another directory, or off)"
            )

    def _evict(self) -> None:
        entries, abandoned = [], time.time() - _ABANDONED
        with os.scandir(self._directory) as files:
            for file in files:
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    status = file.stat()
                    if file.name.endswith(_SUFFIX):
                        entries.append((status.st_mtime_ns, status.st_size, file.path))
                    elif file.name.startswith(".partial-") and status.st_mtime < abandoned:
                        os.unlink(file.path)
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self._limit:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


def _parse(content: bytes) -> tuple[bytes, bytes] | None:
    """The key's text and the program in a file; None if it is not whole."""
    begin = len(_MAGIC) + _CHECKSUM
    body = content[begin:]
    if content[: len(_MAGIC)] != _MAGIC or len(body) < _LENGTH.size:
        return None
    if hashlib.blake2b(body, digest_size=_CHECKSUM).digest() != content[len(_MAGIC) : begin]:
        return None
    (length,) = _LENGTH.unpack_from(body)
    return body[_LENGTH.size : _LENGTH.size + length], body[_LENGTH.size + length :]


def _write(path: Path, content: bytes) -> None:
    descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
