"""Disk cache of compiled programs and of their functions, shared by the user's processes.

- Each entry is one file with its full key, its content and a checksum over both. A damaged file or
  a digest collision is a miss, never a wrong program.
- Files are written under a temporary name and renamed, so any number of processes may read and
  write concurrently.
- A file's modification time is its last use. When the directory exceeds its limit, the least
  recently used files are removed.
- Files that another user may have written are not read.
- An error in the cache is a warning; the program is compiled without it.
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
from ftm_lazy.user_warnings import warn_user

__all__ = ["CacheKey", "DiskCache", "FunctionKey", "FunctionStore", "digest_of", "parse_entry"]

_MAGIC = b"ftm cache 1\n"
_CHECKSUM = 32
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class KeyPart:
    """Base of the cache keys: named parts that determine a file's content in any process."""

    suffix: ClassVar[str]

    @functools.cached_property
    def text(self) -> bytes:
        """All parts with their names as JSON; stored in the file and compared on a hit."""
        return json.dumps(dict(sorted(vars(self).items()))).encode()

    @functools.cached_property
    def digest(self) -> str:
        """Hash of `text`; the file's name."""
        return digest_of(self.text)


@dataclass(frozen=True)
class CacheKey(KeyPart):
    """Key of a compiled program.

    Args:
        trace: Canonical text of the trace.
        compiler: Hash of the compiler's source (`ftm_backend.compile_server.source_hash`).
        machine: Name of the machine preset.
        cores: Number of cores.
        tune: Choices that override the cost model.
    """

    suffix = disk_cache_size.PROGRAM
    trace: str
    compiler: str
    machine: str
    cores: int
    tune: str = ""


@dataclass(frozen=True)
class FunctionKey(KeyPart):
    """Key of one function of compiled programs.

    Args:
        function: Digest of its content and machine (`ftm_backend.codegen.function_cache`).
        compiler: Hash of the compiler's source.
    """

    suffix = disk_cache_size.FUNCTION
    function: str
    compiler: str


class DiskCache:
    """A directory of compiled programs.

    Args:
        directory: Created with mode 700 when the first program is stored; None disables the cache.
        limit: Bytes that all files together may use.
    """

    def __init__(self, directory: Path | None, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._is_swept = False
        self._warned: set[str] = set()

    def path(self, key: KeyPart) -> Path | None:
        """Return the file of `key`, which need not exist; None if the cache is disabled."""
        return self._directory / (key.digest + key.suffix) if self._directory else None

    def is_empty(self) -> bool:
        """Return whether the directory holds no program."""
        if self._directory is None:
            return True
        try:
            with os.scandir(self._directory) as files:
                return not any(file.name.endswith(disk_cache_size.PROGRAM) for file in files)
        except OSError:
            return True

    def get(self, key: KeyPart) -> bytes | None:
        """Return the content stored under `key`; None if no valid file of this user has it."""
        path = self.path(key)
        if path is None or not self._is_usable(path.parent):
            return None
        try:
            parts = parse_entry(trusted_files.read(path, self._limit))
        except FileNotFoundError:
            return None
        except trusted_files.ForeignFile as reason:
            warn_user(f"{reason}; the program is compiled instead")
            return None
        except trusted_files.UnreadableFile as reason:
            self.remove(key, str(reason))
            return None
        except OSError as error:
            self._warn_once(
                "read", f"cannot read {path}: {error.strerror}; the program is compiled instead"
            )
            return None
        if parts is None:
            self.remove(key, "its checksum does not fit")
            return None
        stored, program = parts
        if stored != key.text:
            return None
        with contextlib.suppress(OSError):  # a read-only cache is still useful
            os.utime(path)
        return program

    def remove(self, key: KeyPart, reason: str) -> None:
        """Remove the damaged file of `key`, with a warning that gives `reason`."""
        path = self.path(key)
        if path is None:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        warn_user(
            f"{path} is damaged ({reason}); the file is removed and the program compiled instead"
        )

    def put(self, key: KeyPart, program: bytes) -> None:
        """Store `program` under `key`, and evict old files beyond the limit."""
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
            self._warn_once(
                f"store {error.errno}",
                f"cannot store a compiled program in {path.parent}: {error.strerror}; it will be"
                " compiled again next time (set FTM_CACHE_DIR to another directory, or to off)",
            )

    def _is_usable(self, directory: Path) -> bool:
        """Return whether only this user may write to the directory, or it does not exist yet.

        Otherwise warn once.
        """
        try:
            trusted_files.check_directory(directory)
        except (trusted_files.ForeignFile, NotADirectoryError) as error:
            is_file = isinstance(error, NotADirectoryError)
            reason = f"{directory} is not a directory" if is_file else str(error)
            self._warn_once(
                "use",
                f"the cache of compiled programs is not used: {reason};"
                " set FTM_CACHE_DIR to another directory",
            )
            return False
        except OSError:
            return True  # it does not exist yet, or reading from it raises the error again
        if not self._is_swept:
            self._is_swept = True
            atomic_file.remove_abandoned(directory, trusted_files.PARTIAL)
        return True

    def _warn_once(self, problem: str, message: str) -> None:
        """Warn about a problem that every program of the process would hit."""
        if problem not in self._warned:
            self._warned.add(problem)
            warn_user(message)


class FunctionStore:
    """The compiled functions in a disk cache (`ftm_backend.codegen.function_cache.FunctionStore`).

    Args:
        cache: The cache with their files.
        compiler: Returns the compiler's source hash; None if the compiler process runs another
            version, whose functions must not be stored.
    """

    def __init__(self, cache: DiskCache, compiler: Callable[[], str | None]) -> None:
        self._cache, self._compiler = cache, compiler

    def get(self, digests: Sequence[str]) -> dict[str, bytes]:
        """Return the content of each function that the cache has, by digest."""
        compiler = self._compiler()
        if compiler is None:
            return {}
        found = ((digest, self._cache.get(FunctionKey(digest, compiler))) for digest in digests)
        return {digest: content for digest, content in found if content is not None}

    def put(self, functions: Mapping[str, bytes]) -> None:
        """Store functions, given as digest to content."""
        compiler = self._compiler()
        if compiler is None:
            return
        for digest, content in functions.items():
            self._cache.put(FunctionKey(digest, compiler), content)


def digest_of(key_text: bytes) -> str:
    """Return the hash of a key, which is its file's name."""
    return hashlib.blake2b(key_text, digest_size=20).hexdigest()


def parse_entry(content: bytes) -> tuple[bytes, bytes] | None:
    """Split a file's content into key text and program; None if it is damaged."""
    begin = len(_MAGIC) + _CHECKSUM
    body = content[begin:]
    if content[: len(_MAGIC)] != _MAGIC or len(body) < _LENGTH.size:
        return None
    if hashlib.blake2b(body, digest_size=_CHECKSUM).digest() != content[len(_MAGIC) : begin]:
        return None
    (length,) = _LENGTH.unpack_from(body)
    return body[_LENGTH.size : _LENGTH.size + length], body[_LENGTH.size + length :]
