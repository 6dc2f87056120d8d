"""What the tools read: texts, from a file or from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["read_text"]


def read_text(name: str | Path) -> str:
    """The text of a file, or of standard input for ``-``.

    Raises:
        ValueError: it is not UTF-8; the message names it.
        OSError: it cannot be read.
    """
    data = sys.stdin.buffer.read() if str(name) == "-" else Path(name).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is no UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from None
