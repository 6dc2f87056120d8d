"""Arithmetic on indices: Python integers if they are constant, else expressions."""

from __future__ import annotations

from ftm_backend.ir.tile.index_expr import Expr, IndexFactory

Index = int | Expr
"""A Python integer, or an expression of loop counters and other variables."""


class IndexArithmetic:
    """Arithmetic that folds: a constant result is a Python integer, any other one an `Expr`."""

    def __init__(self, indices: IndexFactory) -> None:
        self._indices = indices

    def expr(self, value: Index) -> Expr:
        """Return ``value`` as an expression."""
        return value if isinstance(value, Expr) else self._indices.constant(value)

    def add(self, a: Index, b: Index) -> Index:
        """Return ``a + b``."""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return a + b
        return _folded(self._indices.add(self.expr(a), self.expr(b)))

    def sub(self, a: Index, b: Index) -> Index:
        """Return ``a - b``."""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return a - b
        return _folded(self._indices.sub(self.expr(a), self.expr(b)))

    def mul(self, a: Index, b: Index) -> Index:
        """Return ``a * b``."""
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return a * b
        return _folded(self._indices.mul(self.expr(a), self.expr(b)))

    def div(self, a: Index, b: Index) -> Index:
        """Return ``floor(a / b)``; 0 if ``b`` is 0."""
        return _folded(self._indices.div(self.expr(a), self.expr(b)))

    def ceildiv(self, a: Index, b: int) -> Index:
        """Return ``ceil(a / b)``; ``b`` must be positive."""
        return self.div(self.add(a, b - 1), b)

    def rem(self, a: Index, b: Index) -> Index:
        """Return ``a`` modulo ``b``; ``a`` must not be negative."""
        return _folded(self._indices.rem(self.expr(a), self.expr(b)))

    def min(self, a: Index, b: Index) -> Index:
        """Return the smaller of two signed indices."""
        return _folded(self._indices.min(self.expr(a), self.expr(b)))

    def max(self, a: Index, b: Index) -> Index:
        """Return the larger of two signed indices."""
        return _folded(self._indices.max(self.expr(a), self.expr(b)))

    def compare(self, predicate: str, a: Index, b: Index) -> Expr:
        """Return ``a <predicate> b`` as 0 or 1; the predicate is eq, ne or lt."""
        return self._indices.compare(predicate, self.expr(a), self.expr(b))


def _folded(expr: Expr) -> Index:
    return expr if expr.terms else expr.const
