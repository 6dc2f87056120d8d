"""Parses index expressions: sums of multiples of names and of operations like ``min(i1, 4)``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ftm_backend.ir.tile.index_expr import Atom, Expr, IndexFactory

_TOKEN = re.compile(r"\s*(-?\d+|[A-Za-z_]\w*|[(),*+])")


def read_expression(text: str, indices: IndexFactory, names: Mapping[str, Atom]) -> Expr:
    """Parse an index expression.

    Args:
        text: Such as ``4*i1 + min(i2, 3)``.
        indices: Creates the expression.
        names: The variables that are in scope.

    Raises:
        ValueError: The text is no expression, or uses an undefined name.
    """
    return _Reader(text, indices, names).read()


def split(text: str, separator: str = ",") -> list[str]:
    """Split a list at separators outside of braces, brackets and parentheses."""
    pieces, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "{[(") - (c in "}])")
        if c == separator and not depth:
            pieces.append(text[start:at].strip())
            start = at + 1
    pieces.append(text[start:].strip())
    return [p for p in pieces if p]


class _Reader:
    def __init__(self, text: str, indices: IndexFactory, names: Mapping[str, Atom]) -> None:
        self._tokens = _TOKEN.findall(text)
        if not self._tokens or "".join(self._tokens) != re.sub(r"\s", "", text):
            raise ValueError(f"{text!r} is no index expression")
        self._indices, self._names, self._at = indices, names, 0

    def read(self) -> Expr:
        """Parse the whole text."""
        result = self._sum()
        if self._at != len(self._tokens):
            raise ValueError(f"{self._tokens[self._at]!r} does not belong there")
        return result

    def _take(self, wanted: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == wanted:
            self._at += 1
            return True
        return False

    def _sum(self) -> Expr:
        total = self._term()
        while self._take("+"):
            total = self._indices.add(total, self._term())
        return total

    def _term(self) -> Expr:
        if self._at == len(self._tokens):
            raise ValueError("an operand is missing")
        token = self._tokens[self._at]
        self._at += 1
        if token.lstrip("-").isdigit():
            if self._take("*"):
                return self._indices.scale(self._term(), int(token))
            return self._indices.constant(int(token))
        if not self._take("("):
            if token not in self._names:
                raise ValueError(f"{token} is not defined here")
            return self._indices.of(self._names[token])
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        if not self._take(")"):
            raise ValueError(f"a parenthesis of {token} is not closed")
        try:
            return self._indices.apply(token, tuple(arguments))
        except TypeError as error:
            raise ValueError(f"{token} does not take {len(arguments)} arguments") from error
