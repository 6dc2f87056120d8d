"""Arithmetic of a kernel's indices: on Python integers as far as they are known, on expressions of
loop counters otherwise."""

from __future__ import annotations

from ftm_backend.ir.tile.index_expr import Expr, IndexFactory

__all__ = ["Index", "IndexArithmetic"]

Index = int | Expr
"""A Python integer, or an expression of loop counters."""


class IndexArithmetic:
    """Takes a Python integer or an ``Expr`` wherever an index is wanted, folds what it can, and
    gives the same kind back."""

    def __init__(self, indices: IndexFactory) -> None:
        self._indices = indices

    def expr(self, value: Index) -> Expr:
        """``value`` as an expression."""
        return value if isinstance(value, Expr) else self._indices.constant(value)

    def add(self, a: Index, b: Index) -> Index:
        """``a + b``"""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return a + b
        return _known(self._indices.add(self.expr(a), self.expr(b)))

    def sub(self, a: Index, b: Index) -> Index:
        """``a - b``"""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return a - b
        return _known(self._indices.sub(self.expr(a), self.expr(b)))

    def mul(self, a: Index, b: Index) -> Index:
        """``a * b``"""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return a * b
        return _known(self._indices.mul(self.expr(a), self.expr(b)))

    def div(self, a: Index, b: Index) -> Index:
        """``a / b``, rounded towards minus infinity; by zero gives 0."""
        return _known(self._indices.div(self.expr(a), self.expr(b)))

    def ceildiv(self, a: Index, b: int) -> Index:
        """``a / b``, rounded towards plus infinity; ``b`` positive."""
        return self.div(self.add(a, b - 1), b)

    def rem(self, a: Index, b: Index) -> Index:
        """``a`` modulo ``b``; ``a`` must not be negative."""
        return _known(self._indices.rem(self.expr(a), self.expr(b)))

    def min(self, a: Index, b: Index) -> Index:
        """The smaller of two signed indices."""
        return _known(self._indices.min(self.expr(a), self.expr(b)))

    def max(self, a: Index, b: Index) -> Index:
        """The larger of two signed indices."""
        return _known(self._indices.max(self.expr(a), self.expr(b)))

    def compare(self, predicate: str, a: Index, b: Index) -> Expr:
        """``a <predicate> b`` as 0 or 1; predicate: eq, ne or lt."""
        return self._indices.compare(predicate, self.expr(a), self.expr(b))


def _known(expr: Expr) -> Index:
    return expr if expr.terms else expr.const
