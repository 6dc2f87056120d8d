"""Errors in assembly text: what is wrong, where, and how to fix it."""

from __future__ import annotations


class AsmError(ValueError):
    """An error in a program; the message shows line, column, the line itself and a caret.

    Args:
        message: What is wrong.
        line: Line number from 1; 0 if unknown.
        column: Column from 1; 0 if the error concerns the whole line.
        source: The line itself.
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
