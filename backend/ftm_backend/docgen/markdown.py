"""Line breaking of generated Markdown."""

from __future__ import annotations

import re
import textwrap

_COLUMNS = 100
_MARKER = re.compile(r"(?:[-*]|\d+\.) ")


def wrap_markdown(text: str) -> str:
    """Break paragraphs and list items at 100 columns; code, tables and comments stay."""
    lines: list[str] = []
    in_code = False
    for line in text.split("\n"):
        in_code ^= line.startswith("```")
        if in_code or len(line) <= _COLUMNS or line.startswith(("|", "<!--", "#")):
            lines.append(line)
            continue
        marker = _MARKER.match(line)
        lines += textwrap.wrap(
            line,
            _COLUMNS,
            subsequent_indent=" " * (len(marker[0]) if marker else 0),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)
