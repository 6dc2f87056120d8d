"""Reads and writes files for the commands: bounded sizes, and errors that name the file."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ftm_backend import optional_packages, safe_names
from ftm_backend.cli_common import UserError, naming
from ftm_backend.runtime import PackageError, package_file

_MOST_TEXT = 1 << 30
"""Bytes of a program's text; the largest one that the compiler has written had 60 MB."""


def read_text(name: str | Path) -> str:
    """Read a text file, or standard input for ``-``.

    Raises:
        UserError: It is not a regular file, is too large, or is not UTF-8.
        OSError: It cannot be read.
    """
    data = _standard_input() if str(name) == "-" else read_bytes(Path(name))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name} is no UTF-8 text: byte {error.start} is {data[error.start]:#04x}"
        ) from None


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; UserError if there is none, OSError if the file cannot be read."""
    text = read_text(path)
    with naming(path, ValueError, RecursionError, what="no JSON"):
        found = json.loads(text)
    if not isinstance(found, dict):
        raise UserError(f"{path}: expected an object with names, found {type(found).__name__}")
    return found


def read_array(path: Path) -> np.ndarray:
    """Read a ``.npy`` file; UserError if it is none, OSError if it cannot be read."""
    # numpy raises exceptions of many types for damaged files.
    with _open(path) as file, naming(path, Exception, what="no .npy array"):
        array = np.load(file, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path} holds several arrays: give one, as .npy")
    return array


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an ``.npz`` or ``.safetensors`` file by name; UserError if it is neither."""
    with _open(path) as file, naming(path, Exception, what="no file of weights"):
        if path.suffix == ".safetensors":
            with optional_packages.needed(f"reading {path}"):
                from safetensors.numpy import load

            return load(file.read())
        with np.load(file, allow_pickle=False) as arrays:
            check_fits_memory(sum(member.file_size for member in arrays.zip.infolist()), str(path))
            return dict(arrays)


def is_package(path: Path) -> bool:
    """Whether a file is a packaged model, by its name or its first bytes."""
    if path.suffix == ".ftm":
        return True
    if not path.is_file():
        return False
    with _open(path) as file:
        return file.read(len(package_file.MAGIC)) == package_file.MAGIC


def read_assembly(path: Path) -> str:
    """Read the text of a program: a text file, or the assembly in a packaged model."""
    if not is_package(path):
        return read_text(path)
    with naming(path, PackageError):
        sections = package_file.read(path)
    if "asm" not in sections:
        raise UserError(f"{path} has no assembly in it")
    with naming(path, UnicodeDecodeError, what="no whole package"):
        return sections["asm"].tobytes().decode()


def write(path: str | Path, content: str | bytes) -> None:
    """Write a file, or standard output for ``-``; raise OSError on failure."""
    data = content if isinstance(content, bytes) else content.encode()
    if str(path) != "-":
        with naming_file(path):
            Path(path).write_bytes(data)
    elif sys.stdout is None:
        raise UserError("standard output is closed: name a file with -o")
    else:
        sys.stdout.buffer.write(data)


def check_fits_memory(nbytes: int, what: str) -> None:
    """Raise UserError if an array is larger than the computer's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if nbytes > memory:
        raise UserError(f"{what} takes {nbytes:,} bytes, and this computer has {memory:,}")


def read_bytes(path: Path) -> bytes:
    """Read a regular file; UserError if it is none or too large, OSError if it cannot be read."""
    with _open(path) as file:
        return _bounded(
            file.read(_MOST_TEXT + 1)
            if os.fstat(file.fileno()).st_size > _MOST_TEXT
            else file.read(),
            path,
        )


@contextlib.contextmanager
def naming_file(path: str | Path) -> Iterator[None]:
    """Add the name of a file to an error that lacks it, such as for a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise UserError("standard input is closed")
    return _bounded(sys.stdin.buffer.read(_MOST_TEXT + 1), "standard input")


def _bounded(data: bytes, name: str | Path) -> bytes:
    if len(data) > _MOST_TEXT:
        raise UserError(f"{name} is larger than {_MOST_TEXT >> 20} MB, which no program is")
    return data


def check_regular(path: Path) -> None:
    """Raise UserError for a directory, device or pipe, OSError if the file cannot be read."""
    _open(path).close()


def _open(path: Path) -> IO[bytes]:
    """Open a regular file for reading.

    Devices and pipes are rejected, because they may never end. Opening does not block, as it
    would for a pipe without a writer.
    """
    shown = safe_names.shortened(str(path))
    with naming(shown, ValueError):  # a NUL in the name
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise UserError(
        f"{shown} is a directory"
        if stat.S_ISDIR(mode)
        else f"{shown} is not a regular file; - reads standard input"
    )
