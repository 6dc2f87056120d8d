"""Texts that a notebook shows line by line, which the representation of a string does not."""

from __future__ import annotations

import html

__all__ = ["NotebookText"]

_STYLE = "overflow-x: auto; white-space: pre; line-height: 1.3"


class NotebookText(str):
    """A string with an HTML form; everywhere else it is the string.

    Example:
        A cell that ends with ``ftm_lazy.metrics.report()`` shows the report's lines.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<pre style="{_STYLE}">{html.escape(self)}</pre>'
