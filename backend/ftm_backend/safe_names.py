"""Sanitize names from files: check them before use as a file name, escape them before printing.

A package, a program or a manifest may come from an untrusted source. Its names must not choose
where a tool writes, and must not send control sequences to a terminal.
"""

from __future__ import annotations

from pathlib import Path

_LONGEST = 200
"""Maximum length in bytes of a name in a file name; file systems allow 255 with the suffix."""


class InvalidName(ValueError):
    """A declared name cannot be a file's name."""


def file_in(directory: Path, name: str, suffix: str) -> Path:
    """Return the path of a declared name, directly inside `directory`.

    Raises:
        InvalidName: The name is a path, is empty or too long, or has control characters.
    """
    is_component = name not in ("", ".", "..") and "/" not in name and "\\" not in name
    if not (is_component and is_printable(name) and len(name.encode()) <= _LONGEST):
        raise InvalidName(f"{shortened(name)!r} cannot be the name of a file in {directory}")
    return directory / f"{name}{suffix}"


def is_printable(name: str) -> bool:
    """Whether a name has no control characters, no direction marks and no lone surrogates."""
    return name.isprintable()


def printable(text: str) -> str:
    r"""Escape a text for a terminal.

    Line breaks and printable characters are kept; the others become escapes such as ``\x1b``.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def shortened(text: str, limit: int = 200) -> str:
    """Truncate a text for a message to `limit` characters, and append its length."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
