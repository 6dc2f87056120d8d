"""Compiled programs, and functions of programs, on disk: one file for each, shared by all processes
of the user, and by nobody else.

A file holds its whole key beside its content, and a checksum over both, so that a damaged file, or
another key with the same digest, is a miss and never a wrong program. Files appear whole or not at
all (written aside, then renamed), so any number of processes may read and write at once. The time
of the last use is the file's modification time; when the directory outgrows its limit, the longest
unused files go. Files that another user may have written are not read. Nothing that goes wrong here
stops the user's program: it is warned of, and compiling goes on without the file.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ftm_backend import atomic_file
from ftm_lazy.compile import disk_cache_size, trusted_files
from ftm_lazy.warnings_once import notice

__all__ = ["CacheKey", "DiskCache", "FunctionKey", "FunctionStore"]

_MAGIC = b"ftm cache 1\n"
_CHECKSUM = 32
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class KeyPart:
    """Named parts that decide what a file holds; nothing of the process is among them."""

    suffix: ClassVar[str]

    @functools.cached_property
    def text(self) -> bytes:
        """All parts with their names, as stored in the file and compared on a hit."""
        return json.dumps(dict(sorted(vars(self).items()))).encode()

    @functools.cached_property
    def digest(self) -> str:
        """Names the file."""
        return hashlib.blake2b(self.text, digest_size=20).hexdigest()


@dataclass(frozen=True)
class CacheKey(KeyPart):
    """What a compiled program depends on.

    Args:
        trace: canonical text of the trace.
        compiler: hash of the compiler's own source (`ftm_backend.compile_server.source_hash`).
        machine: the preset that it is compiled for.
        cores: of the machine.
    """

    suffix = disk_cache_size.PROGRAM
    trace: str
    compiler: str
    machine: str
    cores: int


@dataclass(frozen=True)
class FunctionKey(KeyPart):
    """What a function of programs depends on.

    Args:
        function: digest of what it is, which says the machine as well
        (`ftm_backend.codegen.function_cache`). compiler: hash of the compiler's own source.
    """

    suffix = disk_cache_size.FUNCTION
    function: str
    compiler: str


class DiskCache:
    """A directory of compiled programs.

    Args:
        directory: made when the first program is stored, for this user alone; None stores and finds
        nothing. limit: bytes that all files together may take.
    """

    def __init__(self, directory: Path | None, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._is_swept = False
        self._told: set[str] = set()

    def path(self, key: KeyPart) -> Path | None:
        """Where the program of `key` is, or would be."""
        return self._directory / (key.digest + key.suffix) if self._directory else None

    def is_empty(self) -> bool:
        """Whether there is no program at all in the directory."""
        if self._directory is None:
            return True
        try:
            with os.scandir(self._directory) as files:
                return not any(file.name.endswith(disk_cache_size.PROGRAM) for file in files)
        except OSError:
            return True

    def get(self, key: KeyPart) -> bytes | None:
        """The program that was stored under `key`; None if there is none, or none that is whole and
        this user's."""
        path = self.path(key)
        if path is None or not self._is_usable(path.parent):
            return None
        try:
            parts = _parse(trusted_files.read(path, self._limit))
        except FileNotFoundError:
            return None
        except trusted_files.ForeignFile as reason:
            notice(f"{reason}; the program is compiled instead")
            return None
        except trusted_files.UnreadableFile as reason:
            self.remove(key, str(reason))
            return None
        except OSError as error:
            self._tell_once(
                "read", f"cannot read {path}: {error.strerror}; the program is compiled instead"
            )
            return None
        if parts is None:
            self.remove(key, "its checksum does not fit")
            return None
        stored, program = parts
        if stored != key.text:
            return None
        with contextlib.suppress(OSError):  # a cache that may not be written still serves
            os.utime(path)
        return program

    def remove(self, key: KeyPart, reason: str) -> None:
        """Removes the file of `key`, which turned out to be no good; `reason` completes "is
        damaged"."""
        path = self.path(key)
        if path is None:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        notice(
            f"{path} is damaged ({reason}); the file is removed and the program compiled instead"
        )

    def put(self, key: KeyPart, program: bytes) -> None:
        """Stores `program` under `key`, and removes what no longer fits."""
        path = self.path(key)
        if path is None:
            return
        body = _LENGTH.pack(len(key.text)) + key.text + program
        content = _MAGIC + hashlib.blake2b(body, digest_size=_CHECKSUM).digest() + body
        if len(content) > self._limit:
            return
        if not self._is_usable(path.parent):
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_usable(path.parent):
                disk_cache_size.make_room(path.parent, len(content), self._limit)
                trusted_files.write(path, content)
        except OSError as error:
            self._tell_once(
                f"store {error.errno}",
                f"cannot store a compiled program in {path.parent}: {error.strerror}; it will be compiled again"
                f" next time (FTM_CACHE_DIR names another directory, or off)",
            )

    def _is_usable(self, directory: Path) -> bool:
        """Whether it is a directory that only this user writes to, or is still to be made; if not,
        that is said once."""
        try:
            trusted_files.check_directory(directory)
        except trusted_files.ForeignFile as reason:
            self._tell_once(
                "use",
                f"the cache of compiled programs is not used: {reason}; FTM_CACHE_DIR names another directory",
            )
            return False
        except NotADirectoryError:
            self._tell_once(
                "use",
                f"the cache of compiled programs is not used: {directory} is no directory; FTM_CACHE_DIR names another one",
            )
            return False
        except OSError:
            return True  # there is none yet, or reading from it will tell
        if not self._is_swept:
            self._is_swept = True
            atomic_file.remove_abandoned(directory, trusted_files.PARTIAL)
        return True

    def _tell_once(self, trouble: str, message: str) -> None:
        """Warns of trouble that each program of the process would meet again."""
        if trouble not in self._told:
            self._told.add(trouble)
            notice(message)


class FunctionStore:
    """The functions of a disk cache, for the compiler (`ftm_backend.codegen.function_cache.Shelf`).

    Args:
        cache: where their files are. compiler: gives the hash of the compiler's source; None where
        its process runs other code, whose functions are nobody's.
    """

    def __init__(self, cache: DiskCache, compiler: Callable[[], str | None]) -> None:
        self._cache, self._compiler = cache, compiler

    def get(self, digests: Sequence[str]) -> dict[str, bytes]:
        """Those that are there."""
        compiler = self._compiler()
        if compiler is None:
            return {}
        found = ((digest, self._cache.get(FunctionKey(digest, compiler))) for digest in digests)
        return {digest: content for digest, content in found if content is not None}

    def put(self, functions: Mapping[str, bytes]) -> None:
        """Stores functions."""
        compiler = self._compiler()
        if compiler is None:
            return
        for digest, content in functions.items():
            self._cache.put(FunctionKey(digest, compiler), content)


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
