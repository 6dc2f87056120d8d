"""The files of the disk cache as a whole: list, verify, prune, export and import.

`disk_cache` looks up one entry by its key. The functions here read every file, for the command
``ftm cache``. An exported cache is a tar archive. Its entries are checked as those of the directory
are, but they are not signed: import only an archive that you or your cluster has made.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ftm_lazy.compile import disk_cache, disk_cache_size, trusted_files

__all__ = ["Entry", "entries", "export", "files", "import_archive", "prune", "remove_damaged"]

_SUFFIXES = (disk_cache_size.PROGRAM, disk_cache_size.FUNCTION)
_LARGEST = 1 << 32


@dataclass(frozen=True)
class Entry:
    """One file of the cache.

    Args:
        path: The file.
        size: Its bytes.
        used: Time of its last use, in seconds since the epoch.
        fault: Why it would not be read; empty if it is whole.
        key: The parts of its key; empty if it is damaged.
    """

    path: Path
    size: int
    used: float
    fault: str
    key: dict[str, object]


def files(directory: Path) -> list[Path]:
    """Return the files of a cache that are entries by their names, without reading them."""
    return [path for path in directory.glob("*") if _is_entry(path.name)]


def entries(directory: Path) -> Iterator[Entry]:
    """Read all files of a cache, the most recently used first.

    Files that another process removes meanwhile, to stay below the limit, are left out.
    """
    found = []
    for path in files(directory):
        with contextlib.suppress(FileNotFoundError):
            found.append((path.stat(), path))
    for status, path in sorted(found, key=lambda file: file[0].st_mtime, reverse=True):
        try:
            key, fault = _key(path.name, trusted_files.read(path, _LARGEST)), ""
        except FileNotFoundError:
            continue
        except (trusted_files.ForeignFile, trusted_files.UnreadableFile, ValueError) as error:
            key, fault = {}, str(error)
        yield Entry(path, status.st_size, status.st_mtime, fault, key)


def _is_entry(name: str) -> bool:
    """Whether a file's name is a digest and an entry's suffix."""
    digest, suffix = name[:40], name[40:]
    return len(digest) == 40 and set(digest) <= set("0123456789abcdef") and suffix in _SUFFIXES


def remove_damaged(directory: Path) -> list[Entry]:
    """Remove the files that would not be read, and return them."""
    damaged = [entry for entry in entries(directory) if entry.fault]
    for entry in damaged:
        entry.path.unlink(missing_ok=True)
    return damaged


def prune(directory: Path, limit: int, days: float | None) -> list[Entry]:
    """Remove the least recently used files.

    Args:
        directory: The cache's directory.
        limit: Bytes that may remain.
        days: Also remove files that were not used for so many days; None: at any age.

    Returns:
        The removed files.
    """
    removed, total = [], 0
    oldest = time.time() - days * 86400 if days is not None else 0.0
    for entry in entries(directory):
        total += entry.size
        if total > limit or entry.used < oldest:
            entry.path.unlink(missing_ok=True)
            total -= entry.size
            removed.append(entry)
    return removed


def export(directory: Path, archive: Path) -> int:
    """Write the whole entries as a tar archive; return their number."""
    count = 0
    with tarfile.open(archive, "w") as tar:
        for entry in entries(directory):
            if entry.fault:
                continue
            with contextlib.suppress(FileNotFoundError):
                content = trusted_files.read(entry.path, _LARGEST)
                member = tarfile.TarInfo(entry.path.name)
                member.size, member.mtime = len(content), int(entry.used)
                tar.addfile(member, io.BytesIO(content))
                count += 1
    return count


def import_archive(directory: Path, archive: Path) -> tuple[int, list[str]]:
    """Add the entries of an archive that the cache lacks.

    Returns:
        The number of added entries, and the names of members that are not whole entries.

    Raises:
        tarfile.TarError: It is no archive.
        trusted_files.ForeignFile: Others may write to the directory.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    trusted_files.check_directory(directory)
    added, refused = 0, []
    with tarfile.open(archive) as tar:
        for member in tar:
            if not (member.isfile() and _is_entry(member.name) and member.size <= _LARGEST):
                refused.append(member.name)
                continue
            file = tar.extractfile(member)
            content = file.read() if file else b""
            try:
                _key(member.name, content)
            except ValueError:
                refused.append(member.name)
                continue
            path = directory / member.name
            if not path.exists():
                trusted_files.write(path, content)
                os.utime(path, (member.mtime, member.mtime))
                added += 1
    return added, refused


def _key(name: str, content: bytes) -> dict[str, object]:
    """Return the key of an entry; ValueError if the content is damaged or another entry's."""
    parts = disk_cache.parse_entry(content)
    if parts is None:
        raise ValueError("its checksum does not fit")
    text = parts[0]
    if disk_cache.digest_of(text) != name.partition(".")[0]:
        raise ValueError("its name is that of another entry")
    key = json.loads(text)
    if not isinstance(key, dict):
        raise ValueError("its key has no parts")
    return key
