"""Errors in assembly text: what is wrong, where, and what to do."""

from __future__ import annotations


class AsmError(ValueError):
    """An error in a program; the message shows line, column, the line itself and a caret.

    line, column: from 1; column 0 when the error concerns the whole line.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, source: str = "") -> None:
        self.message, self.line, self.column, self.source = message, line, column, source
        where = f"line {line}" + (f", column {column}" if column else "")
        text = f"{where}: {message}" if line else message
        if source:
            text += f"\n  {source}"
            if column:
                padding = "".join("\t" if c == "\t" else " " for c in source[: column - 1])
                text += f"\n  {padding}^"
        super().__init__(text)
