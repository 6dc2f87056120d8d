"""Index expressions: folded, interned and bounded.

An `Expr` is a constant plus a sum of integer multiples of *atoms*. An atom is a variable (a loop
counter, the core's number, an integer loaded from memory) or a nonlinear operation on expressions.
Expressions are interned, so equal ones are the same object: common subexpressions, loop invariance
and aliasing of slots become identity tests. Division rounds down. Bounds are inclusive and may be
infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from ftm_backend.symbolic import (
    SymInt,
    divides,
    statically_known_equal,
    statically_known_nonnegative,
)


class Atom:
    """A variable (``operation == "var"``) or an operation on expressions.

    Args:
        operation: ``var``, ``mul``, ``div``, ``rem``, ``min``, ``max``, ``lt``, ``eq`` or ``ne``.
        args: Operands; none for a variable.
        level: Nesting depth of the scope that defines it; 0 is the function.
        low: Least value.
        high: Greatest value.
        name: Its text.
    """

    __slots__ = ("args", "high", "key", "level", "low", "name", "operation")

    def __init__(
        self, operation: str, args: tuple[Expr, ...], level: int, low: float, high: float, name: str
    ) -> None:
        self.operation, self.args, self.level = operation, args, level
        self.low, self.high, self.name = low, high, name
        self.key = level, name  # orders the terms of a sum, so that its text is deterministic

    def __repr__(self) -> str:
        return self.name


class Expr:
    """``const + sum(coefficient * atom)``, atoms of outer scopes first."""

    __slots__ = ("const", "level", "terms")

    def __init__(self, const: int, terms: tuple[tuple[Atom, int], ...]) -> None:
        self.const, self.terms = const, terms
        self.level = max((atom.level for atom, _ in terms), default=0)

    @property
    def constant(self) -> int | None:
        """The value if it depends on no variable, else None."""
        return None if self.terms else self.const

    @property
    def low(self) -> float:
        """A lower bound of the value."""
        return self.const + sum(c * (a.low if c > 0 else a.high) for a, c in self.terms)

    @property
    def high(self) -> float:
        """An upper bound of the value."""
        return self.const + sum(c * (a.high if c > 0 else a.low) for a, c in self.terms)

    def depends_on(self, atom: Atom) -> bool:
        """Whether ``atom`` occurs anywhere in it."""
        return any(a is atom or any(e.depends_on(atom) for e in a.args) for a, _ in self.terms)

    def coefficient(self, atom: Atom) -> int | None:
        """Return the coefficient of ``atom``, or None if the value is not linear in it."""
        found = 0
        for a, c in self.terms:
            if a is atom:
                found = c
            elif any(e.depends_on(atom) for e in a.args):
                return None
        return found

    def __repr__(self) -> str:
        words = [
            f"{c}*{a!r}" if not statically_known_equal(c, 1) else repr(a) for a, c in self.terms
        ]
        return " + ".join(
            words if words and statically_known_equal(self.const, 0) else [*words, str(self.const)]
        )


class IndexFactory:
    """Creates and interns the expressions of one function."""

    def __init__(self) -> None:
        self._exprs: dict[tuple[int, tuple[tuple[Atom, int], ...]], Expr] = {}
        self._atoms: dict[tuple[str, tuple[Expr, ...]], Atom] = {}
        self.core = self.variable("core", 0, 0, inf)
        self.cores = self.variable("cores", 0, 1, inf)

    # --- leaves
    # -----------------------------------------------------------------------------------------

    def variable(self, name: str, level: int, low: float, high: float) -> Atom:
        """Create a new variable."""
        return Atom("var", (), level, low, high, name)

    def constant(self, value: int) -> Expr:
        """Return the expression of a number."""
        return self.ordered(value, ())

    def of(self, atom: Atom) -> Expr:
        """Return the expression of one atom."""
        return self.ordered(0, ((atom, 1),))

    def ordered(self, const: int, terms: tuple[tuple[Atom, int], ...]) -> Expr:
        """Return ``const + sum(coefficient * atom)`` of terms in the order of their keys."""
        key = const, terms
        expr = self._exprs.get(key)
        if expr is None:
            expr = self._exprs[key] = Expr(const, terms)
        return expr

    def _atom(
        self, operation: str, args: tuple[Expr, ...], low: float = -inf, high: float = inf
    ) -> Expr:
        key = operation, args
        atom = self._atoms.get(key)
        if atom is None:
            level = max(e.level for e in args)
            atom = self._atoms[key] = Atom(
                operation, args, level, low, high, f"{operation}({', '.join(map(repr, args))})"
            )
        return self.of(atom)

    # --- arithmetic
    # -------------------------------------------------------------------------------------

    def linear(self, const: int, terms: dict[Atom, int]) -> Expr:
        """Return ``const + sum(coefficient * atom)``."""
        kept = sorted(((a, c) for a, c in terms.items() if c), key=lambda term: term[0].key)
        return self.ordered(const, tuple(kept))

    def add(self, a: Expr, b: Expr, sign: int = 1) -> Expr:
        """Return ``a + sign * b``."""
        if not b.terms:
            return self.ordered(a.const + sign * b.const, a.terms)
        terms = dict(a.terms)
        for atom, c in b.terms:
            terms[atom] = terms.get(atom, 0) + sign * c
        return self.linear(a.const + sign * b.const, terms)

    def sub(self, a: Expr, b: Expr) -> Expr:
        """Return ``a - b``."""
        return self.add(a, b, -1)

    def scale(self, a: Expr, factor: int) -> Expr:
        """Return ``a * factor``."""
        if statically_known_equal(factor, 0):
            return self.constant(0)
        return self.ordered(a.const * factor, tuple((atom, c * factor) for atom, c in a.terms))

    def mul(self, a: Expr, b: Expr) -> Expr:
        """Return ``a * b``."""
        if not b.terms:
            return self.scale(a, b.const)
        if not a.terms:
            return self.scale(b, a.const)
        corners = [
            x * y for x in (a.low, a.high) for y in (b.low, b.high) if not (x == 0 or y == 0)
        ] or [0]
        if any(x == 0 for x in (a.low, a.high, b.low, b.high)):
            corners.append(0)
        return self._atom("mul", (a, b), min(corners), max(corners))

    def div(self, a: Expr, b: Expr) -> Expr:
        """Return ``floor(a / b)``; 0 if ``b`` is 0."""
        if b.terms:
            return self._atom("div", (a, b), *self._quotient(a, b))
        d = b.const
        if d == 0:
            return self.constant(0)
        whole, remainder = self._split(a, d)
        if _is_reduced(remainder, d):
            return whole
        low, high = (
            (x if abs(x) == inf else x // d for x in (remainder.low, remainder.high))
            if statically_known_nonnegative(d - 1)
            else (-inf, inf)
        )
        return self.add(whole, self._atom("div", (remainder, b), low, high))

    def rem(self, a: Expr, b: Expr) -> Expr:
        """Return ``a - b * floor(a / b)``; 0 if ``b`` is 0."""
        if b.terms:
            return self._atom("rem", (a, b))
        d = b.const
        if d == 0:
            return self.constant(0)
        _, remainder = self._split(a, d)
        if _is_reduced(remainder, d):
            return remainder
        return self._atom("rem", (remainder, b), *((0, d - 1) if d > 0 else (d + 1, 0)))

    def _split(self, a: Expr, d: int) -> tuple[Expr, Expr]:
        """Return (whole, remainder) with ``a == whole * d + remainder``, term by term."""
        exact = not isinstance(d, SymInt) or divides(d, a.const)
        whole = {atom: c // d for atom, c in a.terms if divides(d, c)}
        remainder = {atom: c for atom, c in a.terms if not divides(d, c)}
        return self.linear(a.const // d if exact else 0, whole), self.linear(
            a.const % d if exact else a.const, remainder
        )

    def _quotient(self, a: Expr, b: Expr) -> tuple[float, float]:
        """Return bounds of ``floor(a / b)``.

        They are exact for a core's share ``(n * core + k) / cores``, since ``core < cores``.
        """
        if a.low < 0 or b.low < 1:
            return -inf, inf
        if (
            b.terms == ((self.cores, 1),)
            and b.const == 0
            and len(a.terms) == 1
            and a.terms[0][0] is self.core
        ):
            n, k = a.terms[0][1], a.const
            return 0, n - 1 if k < n else k
        return 0, a.high

    def min(self, a: Expr, b: Expr) -> Expr:
        """Return the smaller of two expressions."""
        difference = self.sub(a, b)
        if statically_known_nonnegative(-difference.high):
            return a
        if statically_known_nonnegative(difference.low):
            return b
        high = least(a.high, b.high, _simpler(a.high, b.high))
        return self._atom("min", (a, b), least(a.low, b.low), high)

    def max(self, a: Expr, b: Expr) -> Expr:
        """Return the larger of two expressions."""
        difference = self.sub(a, b)
        if statically_known_nonnegative(difference.low):
            return a
        if statically_known_nonnegative(-difference.high):
            return b
        low = greatest(a.low, b.low, _simpler(a.low, b.low))
        return self._atom("max", (a, b), low, greatest(a.high, b.high))

    def compare(self, operation: str, a: Expr, b: Expr) -> Expr:
        """Return ``a <operation> b`` as 0 or 1; the operation is lt, eq or ne."""
        difference = self.sub(a, b)
        low, high = difference.low, difference.high
        certain: bool | None = None
        if operation == "lt":
            certain = (
                True
                if statically_known_nonnegative(-1 - high)
                else False
                if statically_known_nonnegative(low)
                else None
            )
        else:
            differ = statically_known_nonnegative(low - 1) or statically_known_nonnegative(
                -high - 1
            )
            equal = (
                True
                if statically_known_equal(low, 0) and statically_known_equal(high, 0)
                else False
                if differ
                else None
            )
            certain = equal if operation == "eq" or equal is None else not equal
        if certain is not None:
            return self.constant(int(certain))
        return self._atom(operation, (a, b), 0, 1)

    def apply(self, operation: str, args: tuple[Expr, ...]) -> Expr:
        """Apply an atom's operation to other arguments."""
        table: dict[str, Callable[..., Expr]] = {
            "mul": self.mul,
            "div": self.div,
            "rem": self.rem,
            "min": self.min,
            "max": self.max,
        }
        if operation in table:
            return table[operation](*args)
        if operation not in ("lt", "eq", "ne"):
            raise ValueError(f"there is no index operation {operation!r}")
        return self.compare(operation, *args)

    def substitute(self, expr: Expr, atom: Atom, value: Expr) -> Expr:
        """Replace ``atom`` by ``value`` in ``expr``."""
        result = self.constant(expr.const)
        for a, c in expr.terms:
            if a is atom:
                part = value
            elif a.args and any(e.depends_on(atom) for e in a.args):
                part = self.apply(
                    a.operation, tuple(self.substitute(e, atom, value) for e in a.args)
                )
            else:
                part = self.of(a)
            result = self.add(result, self.scale(part, c))
        return result


def _is_reduced(remainder: Expr, divisor: int) -> bool:
    """Whether ``remainder`` is always in ``[0, divisor)``, for a negative one ``(divisor, 0]``."""
    if statically_known_nonnegative(divisor):
        return statically_known_nonnegative(remainder.low) and statically_known_nonnegative(
            divisor - 1 - remainder.high
        )
    return statically_known_nonnegative(
        remainder.low - divisor - 1
    ) and statically_known_nonnegative(-remainder.high)


def least(a: float, b: float, unknown: float = -inf) -> float:
    """Return the smaller number; ``unknown`` if that depends on symbolic sizes."""
    if not isinstance(a, SymInt) and not isinstance(b, SymInt):
        return min(a, b)
    return (
        a
        if statically_known_nonnegative(b - a)
        else b
        if statically_known_nonnegative(a - b)
        else unknown
    )


def greatest(a: float, b: float, unknown: float = inf) -> float:
    """Return the larger number; ``unknown`` if that depends on symbolic sizes."""
    if not isinstance(a, SymInt) and not isinstance(b, SymInt):
        return max(a, b)
    return (
        a
        if statically_known_nonnegative(a - b)
        else b
        if statically_known_nonnegative(b - a)
        else unknown
    )


def _simpler(a: float, b: float) -> float:
    """Return one of two bounds that both hold, a number if one is."""
    return b if isinstance(a, SymInt) else a
