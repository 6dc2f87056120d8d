"""The file format of a packaged model: a table of named sections. Reading executes no content.

Little-endian throughout:

    0   8 bytes   FTMMODEL
    8   u32       version
    12  u32       number of sections
    16  the table, 96 bytes for each section:
            48 bytes name (ASCII, padded with zeros), u64 offset, u64 size, 32 bytes BLAKE2b of the
            section
    ..  the sections, each at a multiple of 64

`packaged_model` defines the sections. A C program reads them with `fread` (``examples/deploy_c``).
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ftm_backend import atomic_file

MAGIC = b"FTMMODEL"
_VERSION = 1
_HEAD = struct.Struct("<8sII")
_ENTRY = struct.Struct("<48sQQ32s")
_ALIGNMENT = 64
_MOST_SECTIONS = 1 << 20
_MAX_NAME = 100  # characters of the target's name in that of the temporary file


class PackageError(ValueError):
    """A file is no complete package, or a call does not fit it; the message has the reason."""


def write(path: str | Path, sections: Mapping[str, bytes | np.ndarray]) -> None:
    """Write a package atomically; raise OSError if it cannot be written."""
    names = [name.encode("ascii") for name in sections]
    if any(len(name) > 48 for name in names):
        raise PackageError("a section's name has at most 48 characters")
    contents = [
        np.ascontiguousarray(c).reshape(-1).view(np.uint8).data
        if isinstance(c, np.ndarray)
        else memoryview(c)
        for c in sections.values()
    ]
    offset = _aligned(_HEAD.size + _ENTRY.size * len(names))
    table, starts = [], []
    for name, content in zip(names, contents, strict=True):
        table.append(_ENTRY.pack(name, offset, content.nbytes, _digest(content)))
        starts.append(offset)
        offset = _aligned(offset + content.nbytes)
    path = Path(path)
    # The prefix has the target's name, so that files of other targets are not removed.
    prefix = f".{path.name[:_MAX_NAME]}.partial-"
    atomic_file.remove_abandoned(path.parent, prefix)
    try:
        with atomic_file.replacing(path, prefix) as file:
            file.write(_HEAD.pack(MAGIC, _VERSION, len(names)) + b"".join(table))
            for start, content in zip(starts, contents, strict=True):
                file.write(b"\0" * (start - file.tell()))
                file.write(content)
            os.chmod(file.fileno(), 0o666 & ~_umask())
    except OSError as error:
        # Report the target: the temporary file's name means nothing to the user.
        error.filename, error.filename2 = str(path), None
        raise


def read(path: str | Path) -> dict[str, np.ndarray]:
    """Read the sections as bytes, mapped from the file copy-on-write.

    Raises:
        PackageError: The file is no package, of another version, truncated or damaged.
        OSError: It cannot be read.
    """
    path = Path(path)
    size = path.stat().st_size
    if size < _HEAD.size:
        raise PackageError(f"{path} is no packaged model: it has {size} bytes")
    data = np.memmap(path, np.uint8, "c")
    magic, version, count = _HEAD.unpack(data[: _HEAD.size].tobytes())
    if magic != MAGIC:
        raise PackageError(f"{path} is no packaged model: it does not begin with {MAGIC.decode()}")
    if version != _VERSION:
        raise PackageError(
            f"{path} has format version {version}, this runtime reads {_VERSION}: "
            "package the model again"
        )
    end = _HEAD.size + _ENTRY.size * count
    if count > _MOST_SECTIONS or end > size:
        raise PackageError(
            f"{path} is damaged: its table of {count} sections does not fit into {size} bytes"
        )
    sections: dict[str, np.ndarray] = {}
    for raw, offset, length, digest in _ENTRY.iter_unpack(data[_HEAD.size : end].tobytes()):
        try:
            name = raw.rstrip(b"\0").decode("ascii")
        except UnicodeDecodeError:
            raise PackageError(f"{path} is damaged: a section has no readable name") from None
        if offset % _ALIGNMENT or offset < end or offset > size or length > size - offset:
            raise PackageError(
                f"{path} is damaged: section {name!r} lies outside of the file ({size} bytes): "
                "was it cut short?"
            )
        if name in sections:
            raise PackageError(f"{path} is damaged: it has two sections {name!r}")
        content = data[offset : offset + length]
        if _digest(content.data) != digest:
            raise PackageError(f"{path} is damaged: the checksum of section {name!r} does not fit")
        sections[name] = content
    return sections


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _digest(content: memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
