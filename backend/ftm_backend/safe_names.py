"""Names that a file declares: checked before one becomes a file's name, escaped before one is
printed.

A package, a program or a manifest may come from anybody. Its names must not choose where a tool
writes, and must not send control sequences to a terminal.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["InvalidName", "file_in", "is_printable", "printable", "shortened"]

_LONGEST = 200
"""Characters of a name that becomes a file's name; file systems allow 255 bytes with the suffix."""


class InvalidName(ValueError):
    """A declared name cannot be a file's name."""


def file_in(directory: Path, name: str, suffix: str) -> Path:
    """The file of a declared name, directly inside a directory.

    Raises:
        InvalidName: the name is a path, is empty or too long, or holds control characters.
    """
    is_component = name not in ("", ".", "..") and "/" not in name and "\\" not in name
    if not (is_component and is_printable(name) and len(name.encode()) <= _LONGEST):
        raise InvalidName(f"{shortened(name)!r} cannot be the name of a file in {directory}")
    return directory / f"{name}{suffix}"


def is_printable(name: str) -> bool:
    """Whether a name has no control characters, no direction marks and no lone surrogates."""
    return name.isprintable()


def printable(text: str) -> str:
    """A text for a terminal: everything but line breaks and printable characters becomes an escape
    such as ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def shortened(text: str, limit: int = 200) -> str:
    """A text of at most `limit` characters for a message."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
