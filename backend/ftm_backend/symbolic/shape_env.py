"""The symbols of a program: what they are in the program at hand, and what has been asked of
them."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ftm_backend.symbolic.polynomial import Polynomial, without

__all__ = ["PLACEHOLDER", "Guard", "ShapeEnv", "current"]


@dataclass(frozen=True, slots=True)
class Guard:
    """What has to hold: ``size`` compared with 0 by ``relation``, one of ``== != >= ``; ``place``
    is the code that asked."""

    size: str
    relation: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.size} {self.relation} 0"


_LARGEST = 1 << 31
"""Bytes that are products of a size and a few numbers are no question of 64 bits."""

_HERE = Path(__file__).parent


class _Spelled(Protocol):
    @property
    def text(self) -> str: ...


class ShapeEnv:
    """The symbols of one program, what they are in the program at hand, and the guards that were
    met.

    Args:
        values: for each symbol its number at hand and the least number that it may be; one that is
            at least 1 is a size of tensors, and not above ``_LARGEST``.
    """

    def __init__(self, values: Mapping[str, tuple[int, int]]) -> None:
        self.values: dict[str, int] = {}
        self.guards: dict[tuple[str, str], Guard] = {}
        self.atoms: dict[str, int] = {}
        """For the symbols and the quotients and remainders of sizes that were met, their number at
        hand."""
        self.read: dict[str, Any] = {}
        """Sizes by the texts that they were read from."""
        self.divided: dict[tuple[str, str | int], tuple[Any, Any]] = {}
        """Quotients and remainders by what was divided, and by what: the same few are asked for
        again and again."""
        self._quotients: dict[str, tuple[Polynomial, int]] = {}
        """For quotients by an integer what is divided, and by what."""
        self._spans: dict[tuple[str, ...], tuple[float, float]] = {}
        self._bounds: dict[str, tuple[float, float]] = {}
        # Least and greatest numbers of what varies in polynomials that were met: many differ by a
        # constant alone.
        self._met: dict[frozenset[tuple[tuple[str, ...], int]], tuple[float, float]] = {}
        self._met_divided: dict[frozenset[tuple[tuple[str, ...], int]], tuple[float, float]] = {}
        self._placed: list[str] | None = None
        for name, (value, least) in values.items():
            self.declare(name, value, least)

    def __enter__(self) -> ShapeEnv:
        _CURRENT.symbols.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.symbols.pop()

    def declare(self, name: str, value: int, least: int) -> None:
        """One symbol more: its number at hand, and the least that it may be."""
        high = _LARGEST if least > 0 else math.inf
        self.values[name] = self.atoms[name] = value
        self._bounds[name] = least, high
        self.guards[name, ">="] = Guard(f"{name}{-least:+d}", ">=", "the symbol's least value")
        if high != math.inf:
            self.guards[f"-{name}", ">="] = Guard(
                f"-{name}+{high}", ">=", "the symbol's greatest value"
            )

    @property
    def pinned(self) -> list[Guard]:
        """Guards of equality: what has become special."""
        return [guard for guard in self.guards.values() if guard.relation == "=="]

    def require(self, size: _Spelled, relation: str) -> None:
        """Writes down a guard."""
        key = (size.text, relation)
        if key not in self.guards:
            self.guards[key] = Guard(size.text, relation, _place())

    def bounds(self, polynomial: Polynomial) -> tuple[float, float]:
        """Least and greatest number that a polynomial can be for any values of the symbols."""
        constant = polynomial.get((), 0)
        varying = {m: c for m, c in polynomial.items() if m} if constant else polynomial
        key = frozenset(varying.items())
        found = self._met.get(key)
        if found is None:
            found = self._met[key] = self._bounds_of_terms(varying)
        low, high = found[0] + constant, found[1] + constant
        if low < 0 < high and len(polynomial) > 1 and self._quotients:
            divided = self._met_divided.get(key)
            if divided is None:
                divided = self._met_divided[key] = self._bounds_divided(varying)
            low, high = max(low, divided[0] + constant), min(high, divided[1] + constant)
        return low, high

    def _bounds_divided(self, polynomial: Polynomial) -> tuple[float, float]:
        """The same where quotients are taken for what is divided, less a remainder: ``128*(s/64)``
        is ``2*s`` or up to 126 less.

        No term is a constant.
        """
        taken: Polynomial = {}
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
                taken[monomial] = taken.get(monomial, 0) + factor
                continue
            top, by = self._quotients[atom]
            others, times = without(monomial, atom), factor // by
            for m, c in top.items():
                product = tuple(sorted((*others, *m)))
                taken[product] = taken.get(product, 0) + times * c
            least, most = self._spans.get(others) or self._span(others)
            rest = sorted((0, -times * (by - 1) * most)) if least >= 0 else (-math.inf, math.inf)
            low, high = low + rest[0], high + rest[1]
        inner_low, inner_high = self._bounds_of_terms({m: c for m, c in taken.items() if c})
        return _multiples(polynomial, low + inner_low, high + inner_high)

    def _bounds_of_terms(self, polynomial: Polynomial) -> tuple[float, float]:
        low: float = 0
        high: float = 0  # integers unless infinite: numbers beyond 2**53 are exact
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
        """The same of a product of atoms."""
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
        """A quotient or a remainder, as an atom of polynomials: its text, its number at hand, and
        what it can be.

        ``divided``: of a quotient by an integer, what is divided, and by what.
        """
        self.atoms[text] = value
        if divided is not None:
            self._quotients[text] = divided
        self._bounds.setdefault(text, (low, high))
        return text

    def placeholder(self, size: _Spelled) -> int:
        """While `placing`: the number that stands for a size."""
        assert self._placed is not None
        self._placed.append(size.text)
        return PLACEHOLDER + len(self._placed) - 1

    def placing(self) -> _Placing:
        """While this is entered, sizes are taken as placeholders: numbers from `PLACEHOLDER` on,
        counted in ``texts``."""
        return _Placing(self)

    @property
    def is_placing(self) -> bool:
        """Whether placeholders are given for sizes."""
        return self._placed is not None


PLACEHOLDER = 0x5A17_0000_0000_0000
"""Numbers from here on stand for sizes in an image that is being made into a template."""


class _Placing:
    def __init__(self, symbols: ShapeEnv) -> None:
        self._symbols = symbols
        self.texts: list[str] = []

    def __enter__(self) -> _Placing:
        self._symbols._placed = self.texts
        return self

    def __exit__(self, *error: object) -> None:
        self._symbols._placed = None


def _multiples(polynomial: Polynomial, low: float, high: float) -> tuple[float, float]:
    """Bounds, as near as the divisor that all coefficients have in common allows."""
    common = math.gcd(*polynomial.values())
    if not math.isinf(low):
        low = -(-int(low) // common) * common
    if not math.isinf(high):
        high = int(high) // common * common
    return low, high


class _Current(threading.local):
    """Each thread is at a program of its own."""

    def __init__(self) -> None:
        self.symbols: list[ShapeEnv] = []


_CURRENT = _Current()


def current() -> ShapeEnv | None:
    """The symbols of the program that is being compiled; None where it has none."""
    symbols = _CURRENT.symbols
    return symbols[-1] if symbols else None


def _place() -> str:
    """The code outside of this package that compares or takes a size."""
    frame: Any = sys._getframe(2)
    while frame is not None and Path(frame.f_code.co_filename).parent == _HERE:
        frame = frame.f_back
    return (
        f"{frame.f_code.co_filename.rpartition('ftm_backend/')[2]}:{frame.f_lineno}"
        if frame
        else ""
    )
