"""`ShapeEnv`: the symbols of one program, their hints and bounds, and the recorded guards."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from ftm_backend.symbolic.polynomial import Polynomial, without


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition ``size <relation> 0``.

    Attributes:
        size: Text of the polynomial.
        relation: ``==``, ``!=`` or ``>=``.
        place: The source line that recorded the guard, for messages.
    """

    size: str
    relation: str
    place: str = ""

    def __str__(self) -> str:
        """Return the condition as text."""
        return f"{self.size} {self.relation} 0"


_LARGEST = 1 << 31
"""Upper bound of a tensor's extent. With it, byte offsets (products of an extent and a few small
numbers) provably fit into 64 bits."""

_HERE = Path(__file__).parent


class _Spelled(Protocol):
    @property
    def text(self) -> str: ...


if TYPE_CHECKING:
    from ftm_backend.symbolic.symint import SymInt


class ShapeEnv:
    """The symbols of one program, and the guards under which the program is valid.

    As a context manager, it is the thread's `current_env` environment.

    Args:
        values: By symbol, its hint and its least value. A symbol with a least value of 1 or more is
            a tensor's extent and is bounded by ``_LARGEST``.

    Attributes:
        values: The symbols' hints.
        guards: Recorded guards, by text and relation.
    """

    def __init__(self, values: Mapping[str, tuple[int, int]]) -> None:
        """Declare the symbols of `values`."""
        self.values: dict[str, int] = {}
        self.declared: dict[str, tuple[int, int]] = {}
        """Hint and least value of each symbol."""
        self.distinct: set[str] = set()
        """Symbols that other traces have distinguished from all others: equal hints are chance."""
        self.guards: dict[tuple[str, str], Guard] = {}
        self.atoms: dict[str, int] = {}
        """Hints of the symbols, and of the quotients and remainders that occurred."""
        self.parsed: dict[str, int] = {}
        """Sizes that were parsed, by their text in braces."""
        self.divided: dict[tuple[str, str | int], tuple[SymInt | int, SymInt | int]] = {}
        """Quotient and remainder by dividend's text and divisor; divisions repeat often."""
        self._quotients: dict[str, tuple[Polynomial, int]] = {}
        """Dividend and divisor of each quotient by a constant."""
        self._spans: dict[tuple[str, ...], tuple[float, float]] = {}
        self._bounds: dict[str, tuple[float, float]] = {}
        # Bounds of polynomials without their constant term: many polynomials differ only in it.
        self._bounds_cache: dict[frozenset[tuple[tuple[str, ...], int]], tuple[float, float]] = {}
        self._divided_bounds_cache: dict[
            frozenset[tuple[tuple[str, ...], int]], tuple[float, float]
        ] = {}
        for name, (value, least) in values.items():
            self.declare(name, value, least)

    def __enter__(self) -> ShapeEnv:
        """Make this the current environment."""
        _CURRENT.symbols.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous environment."""
        _CURRENT.symbols.pop()

    def declare(self, name: str, value: int, least: int) -> None:
        """Add a symbol.

        Args:
            name: The symbol.
            value: Its hint.
            least: Its least value.
        """
        high = _LARGEST if least > 0 else math.inf
        self.values[name] = self.atoms[name] = value
        self.declared[name] = value, least
        self._bounds[name] = least, high
        self.guards[name, ">="] = Guard(f"{name}{-least:+d}", ">=", "the symbol's least value")
        if high != math.inf:
            self.guards[f"-{name}", ">="] = Guard(
                f"-{name}+{high}", ">=", "the symbol's greatest value"
            )

    @property
    def equalities(self) -> list[Guard]:
        """The guards that are equalities, i.e. what has been specialized."""
        return [guard for guard in self.guards.values() if guard.relation == "=="]

    def require(self, size: _Spelled, relation: str) -> None:
        """Record a guard."""
        key = (size.text, relation)
        if key not in self.guards:
            self.guards[key] = Guard(size.text, relation, _calling_line())

    def bounds(self, polynomial: Polynomial) -> tuple[float, float]:
        """Return bounds of a polynomial that hold for all values of the symbols."""
        constant = polynomial.get((), 0)
        varying = {m: c for m, c in polynomial.items() if m} if constant else polynomial
        key = frozenset(varying.items())
        found = self._bounds_cache.get(key)
        if found is None:
            found = self._bounds_cache[key] = self._bounds_of_terms(varying)
        low, high = found[0] + constant, found[1] + constant
        if low < 0 < high and len(polynomial) > 1 and self._quotients:
            divided = self._divided_bounds_cache.get(key)
            if divided is None:
                divided = self._divided_bounds_cache[key] = self._bounds_divided(varying)
            low, high = max(low, divided[0] + constant), min(high, divided[1] + constant)
        return low, high

    def _bounds_divided(self, polynomial: Polynomial) -> tuple[float, float]:
        """Bound a polynomial after replacing quotients by their dividends minus a remainder.

        Example: ``128*(s/64)`` lies between ``2*s - 126`` and ``2*s``. No term is constant.
        """
        expanded: Polynomial = {}
        low: float = 0
        high: float = 0
        for monomial, factor in polynomial.items():
            atom = next(
                (
                    atom
                    for atom in monomial
                    if atom in self._quotients and factor % self._quotients[atom][1] == 0
                ),
                None,
            )
            if atom is None:
                expanded[monomial] = expanded.get(monomial, 0) + factor
                continue
            top, by = self._quotients[atom]
            others, multiple = without(monomial, atom), factor // by
            for m, c in top.items():
                product = tuple(sorted((*others, *m)))
                expanded[product] = expanded.get(product, 0) + multiple * c
            least, most = self._spans.get(others) or self._span(others)
            remainder = (
                sorted((0, -multiple * (by - 1) * most)) if least >= 0 else (-math.inf, math.inf)
            )
            low, high = low + remainder[0], high + remainder[1]
        inner_low, inner_high = self._bounds_of_terms({m: c for m, c in expanded.items() if c})
        return _round_to_multiples(polynomial, low + inner_low, high + inner_high)

    def _bounds_of_terms(self, polynomial: Polynomial) -> tuple[float, float]:
        low: float = 0
        high: float = 0  # Python integers unless infinite: exact beyond 2**53
        for monomial, factor in polynomial.items():
            least, most = self._spans.get(monomial) or self._span(monomial)
            if factor < 0:
                least, most = most, least
            low, high = low + factor * least, high + factor * most
        if len(polynomial) < 2 or () in polynomial:
            return low, high
        for atom in set.intersection(*map(set, polynomial)):  # s*s - s is s * (s - 1)
            a, b = self._bounds[atom]
            if a > 0:
                inner_low, inner_high = self.bounds(
                    {without(m, atom): c for m, c in polynomial.items()}
                )
                low = max(low, inner_low * (a if inner_low >= 0 else b))
                high = min(high, inner_high * (b if inner_high >= 0 else a) if inner_high else 0)
                break
        return low, high

    def _span(self, monomial: tuple[str, ...]) -> tuple[float, float]:
        """Bound a product of atoms."""
        least: float = 1
        most: float = 1
        for atom in monomial:
            a, b = self._bounds[atom]
            if a < 0:
                least, most = -math.inf, math.inf
                break
            least, most = least * a, most * b if most and b else 0
        self._spans[monomial] = least, most
        return least, most

    def atom(
        self,
        text: str,
        value: int,
        low: float,
        high: float,
        divided: tuple[Polynomial, int] | None = None,
    ) -> str:
        """Register a quotient or remainder as an atom of polynomials.

        Args:
            text: Its text, e.g. ``(s0/64)``.
            value: Its hint.
            low: Lower bound.
            high: Upper bound.
            divided: Dividend and divisor, if it is a quotient by a constant.

        Returns:
            `text`.
        """
        self.atoms[text] = value
        if divided is not None:
            self._quotients[text] = divided
        self._bounds.setdefault(text, (low, high))
        return text


def _round_to_multiples(polynomial: Polynomial, low: float, high: float) -> tuple[float, float]:
    """Tighten bounds to multiples of the coefficients' greatest common divisor."""
    common = math.gcd(*polynomial.values())
    if not math.isinf(low):
        low = -(-int(low) // common) * common
    if not math.isinf(high):
        high = int(high) // common * common
    return low, high


class _Current(threading.local):
    """Environments that were entered; the last is the current one of its thread."""

    def __init__(self) -> None:
        self.symbols: list[ShapeEnv] = []


_CURRENT = _Current()


def current_env() -> ShapeEnv | None:
    """Return the environment of the program that this thread compiles, or None."""
    symbols = _CURRENT.symbols
    return symbols[-1] if symbols else None


def _calling_line() -> str:
    """Return the source line outside of this package that compares or specializes a size."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and Path(frame.f_code.co_filename).parent == _HERE:
        frame = frame.f_back
    return (
        f"{frame.f_code.co_filename.rpartition('ftm_backend/')[2]}:{frame.f_lineno}"
        if frame
        else ""
    )
