"""An integer that remembers the polynomial that it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ftm_backend.symbolic.expression_compiler import SymbolicExpressionError
from ftm_backend.symbolic.polynomial import (
    Polynomial,
    add,
    exact,
    grouped,
    leads_negative,
    parts,
    spell,
)
from ftm_backend.symbolic.shape_env import ShapeEnv

if TYPE_CHECKING:
    from ftm_backend.symbolic.symfloat import SymFloat

__all__ = ["SymInt"]


_MOST_TERMS = 48
"""Longer polynomials than this are no sizes that somebody wrote; what makes one is specialized
instead."""


class SymInt:
    """An integer that remembers its ``polynomial``; ``value``: what it is in the program at hand.
    Made by arithmetic."""

    __slots__ = ("_bounds", "_products", "_sums", "_symbols", "_text", "polynomial", "value")

    def __init__(self, polynomial: Polynomial, value: int, symbols: ShapeEnv) -> None:
        self.polynomial, self.value, self._symbols = polynomial, value, symbols
        self._text = ""
        self._bounds: tuple[float, float] | None = None
        # What has been made of it, by the other operand: a number, or a size's text. A program asks
        # for the same few again and again, and what is found here has its text and bounds already.
        self._sums: dict[int | str, Any] = {}
        self._products: dict[int | str, Any] = {}

    @property
    def text(self) -> str:
        """The polynomial, in an order that depends on nothing but itself."""
        if not self._text:
            self._text = spell(self.polynomial)
        return self._text

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest number that it can be."""
        if self._bounds is None:
            self._bounds = self._symbols.bounds(self.polynomial)
        return self._bounds

    @property
    def monomial(self) -> tuple[int, tuple[str, ...]] | None:
        """Its factor and its atoms, where it is one product."""
        if len(self.polynomial) != 1:
            return None
        ((atoms, factor),) = self.polynomial.items()
        return factor, atoms

    def product(self, atoms: Sequence[str]) -> SymInt:
        """The product of some of its atoms."""
        return SymInt(
            {tuple(sorted(atoms)): 1},
            math.prod(self._symbols.atoms[atom] for atom in atoms),
            self._symbols,
        )

    def __str__(self) -> str:
        spelled = "{" + self.text + "}"
        # who reads it back has the size that was meant
        self._symbols.read.setdefault(spelled, self)
        return spelled

    __repr__ = __str__

    def __format__(self, wanted: str) -> str:
        return f"+{self}" if wanted.startswith("+") else str(self)

    def __hash__(self) -> int:
        return hash(self.text)

    # --- arithmetic
    # -----------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        if isinstance(other, float):
            return other if math.isinf(other) else _real("+", self, other)
        if isinstance(other, SymInt):
            found = self._sums.get(other.text)
            if found is None:
                found = _make(
                    add(self.polynomial, other.polynomial, 1),
                    self.value + other.value,
                    self._symbols,
                )
                self._sums[other.text] = found
            return found
        if isinstance(other, int):
            return self._moved(other)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        if isinstance(other, float):
            return self + -other
        if isinstance(other, SymInt):
            return self + -other
        if isinstance(other, int):
            return self._moved(-other)
        return NotImplemented

    def _moved(self, by: int) -> SymInt:
        """The sum with a number."""
        if not by:
            return self
        found: SymInt | None = self._sums.get(by)
        if found is None:
            polynomial = dict(self.polynomial)
            constant = polynomial.pop((), 0) + by
            if constant:
                polynomial[()] = constant
            found = self._sums[by] = SymInt(polynomial, self.value + by, self._symbols)
        return found

    def __rsub__(self, other: object) -> Any:
        return -self + other if isinstance(other, (int, float)) else NotImplemented

    def __neg__(self) -> SymInt:
        return cast(SymInt, self * -1)

    def __pos__(self) -> SymInt:
        return self

    def __mul__(self, other: object) -> Any:
        if isinstance(other, SymInt):
            found = self._products.get(other.text)
            if found is None:
                found = self._products[other.text] = self._times(other)
            return found
        if isinstance(other, int):
            if other == 1:
                return self
            found = self._products.get(other)
            if found is None:
                scaled = {m: c * other for m, c in self.polynomial.items()}
                found = self._products[other] = (
                    SymInt(scaled, self.value * other, self._symbols) if other else 0
                )
            return found
        if isinstance(other, float):
            return (
                (other if self > 0 else -other)
                if math.isinf(other) and self != 0
                else _real("*", self, other)
            )
        return NotImplemented

    def _times(self, other: SymInt) -> Any:
        if len(self.polynomial) * len(other.polynomial) > _MOST_TERMS:
            return int(self) * int(other)
        product: Polynomial = {}
        for a, x in self.polynomial.items():
            for b, y in other.polynomial.items():
                monomial = tuple(sorted(a + b))
                product[monomial] = product.get(monomial, 0) + x * y
        return _make(product, self.value * other.value, self._symbols)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        return math.prod([self] * power)

    def __lshift__(self, bits: int) -> Any:
        return self * (1 << bits)

    def __rshift__(self, bits: int) -> Any:
        return self // (1 << bits)

    def __floordiv__(self, other: object) -> Any:
        return self.__divmod__(other)[0] if isinstance(other, (int, SymInt)) else NotImplemented

    def __mod__(self, other: object) -> Any:
        return self.__divmod__(other)[1] if isinstance(other, (int, SymInt)) else NotImplemented

    def __rfloordiv__(self, other: object) -> Any:
        return self.__rdivmod__(other)[0] if isinstance(other, int) else NotImplemented

    def __rmod__(self, other: object) -> Any:
        return self.__rdivmod__(other)[1] if isinstance(other, int) else NotImplemented

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        key = self.text, other.text if isinstance(other, SymInt) else int(other)
        found = self._symbols.divided.get(key)
        if found is None:
            divisor: Polynomial = (
                other.polynomial if isinstance(other, SymInt) else {(): int(other)}
            )
            by = other.value if isinstance(other, SymInt) else int(other)
            found = self._symbols.divided[key] = _divide(
                self.polynomial, self.value, divisor, by, self._symbols
            )
        return found

    def __rdivmod__(self, other: int) -> tuple[Any, Any]:
        constant: Polynomial = {(): other} if other else {}
        return _divide(constant, other, self.polynomial, self.value, self._symbols)

    def __abs__(self) -> SymInt:
        return self if self >= 0 else -self

    def __round__(self, digits: int | None = None) -> SymInt:
        return self

    def __ceil__(self) -> SymInt:
        return self

    __floor__ = __trunc__ = __ceil__

    # --- comparisons: guards
    # --------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, SymInt)):
            if not isinstance(other, float) or not other.is_integer():
                return False
            other = int(other)
        if isinstance(other, int) and (other < self.bounds[0] or other > self.bounds[1]):
            return False
        difference = self - other
        if not isinstance(difference, SymInt):
            return difference == 0
        low, high = difference.bounds
        if low > 0 or high < 0:
            return False
        equal = difference.value == 0
        self._symbols.require(_signed(difference), "==" if equal else "!=")
        return equal

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __ge__(self, other: SymInt | float) -> bool:
        if isinstance(other, float):
            return other < 0 if math.isinf(other) else self >= math.ceil(other)
        if isinstance(other, int) and (other <= self.bounds[0] or other > self.bounds[1]):
            return other <= self.bounds[0]
        return _not_negative(self - other)

    def __gt__(self, other: SymInt | float) -> bool:
        if isinstance(other, float):
            return other < 0 if math.isinf(other) else self > math.floor(other)
        return self >= other + 1

    def __le__(self, other: SymInt | float) -> bool:
        return not self > other

    def __lt__(self, other: SymInt | float) -> bool:
        return not self >= other

    def __bool__(self) -> bool:
        return self != 0

    # --- where a number is taken
    # ----------------------------------------------------------------------

    def __index__(self) -> int:
        if self._symbols.is_placing:
            return self._symbols.placeholder(self)
        self._symbols.require(_signed(self - self.value), "==")
        return self.value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __truediv__(self, other: SymInt | float) -> SymFloat:
        return _real("/", self, other)

    def __rtruediv__(self, other: float) -> SymFloat:
        return _real("/", other, self)

    def __and__(self, other: SymInt | int) -> int:
        return int(self) & int(other)

    __rand__ = __and__

    def __or__(self, other: SymInt | int) -> int:
        return int(self) | int(other)

    __ror__ = __or__

    def bit_length(self) -> int:
        """As an integer's; the guard keeps to the numbers of as many bits."""
        bits = abs(self.value).bit_length()
        # always: the comparisons write the guards
        if not (1 << bits) >> 1 <= abs(self) < 1 << bits:
            raise SymbolicExpressionError(f"{self.value} has not {bits} bits")
        return bits


def _real(symbol: str, left: SymInt | float, right: SymInt | float) -> SymFloat:
    from ftm_backend.symbolic.symfloat import operation

    return operation(symbol, left, right)


def _make(polynomial: Polynomial, value: int, symbols: ShapeEnv) -> Any:
    if 0 in polynomial.values():
        polynomial = {m: c for m, c in polynomial.items() if c}
    if not polynomial or (len(polynomial) == 1 and () in polynomial):
        return value
    return SymInt(polynomial, value, symbols)


def _signed(size: SymInt) -> SymInt:
    """The one of a size and its negative whose first term is positive: both are 0 together."""
    first = min(size.polynomial)
    return size if size.polynomial[first] > 0 else -size


def _not_negative(difference: SymInt | float) -> bool:
    if not isinstance(difference, SymInt):
        return bool(difference >= 0)
    low, high = difference.bounds
    if low >= 0 or high < 0:
        return low >= 0
    if difference.value >= 0:
        difference._symbols.require(difference, ">=")
        return True
    difference._symbols.require(-difference - 1, ">=")
    return False


def _divide(
    top: Polynomial, value: int, bottom: Polynomial, by: int, symbols: ShapeEnv
) -> tuple[Any, Any]:
    """Quotient and remainder, rounded down as Python's."""
    if by == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    made = _make(bottom, by, symbols)
    if isinstance(made, SymInt) and not made > 0:
        return divmod(int(_make(top, value, symbols)), int(made))
    if not isinstance(made, SymInt) and by < 0:
        quotient = -_make(top, value, symbols) // -by
        return quotient, _make(top, value, symbols) - quotient * by
    # so that -(-n // 16) is (n + 15) // 16, however it is written
    if leads_negative(top) and not isinstance(made, SymInt):
        raised = _make(
            add({m: -c for m, c in top.items()}, {(): by - 1}, 1), by - 1 - value, symbols
        )
        quotient = -(raised // by)
        return quotient, _make(top, value, symbols) - quotient * by
    whole, rest = exact(top, bottom) if isinstance(made, SymInt) else parts(top, by)
    over = value - _value(whole, symbols) * by
    quotient, remainder = over // by, over % by
    q, r = _make(whole, _value(whole, symbols), symbols), _make(rest, over, symbols)
    if not isinstance(r, SymInt):
        if not isinstance(made, SymInt):
            return q + quotient, remainder
        if over == 0 or (over > 0 and made > over):
            return q, over
    else:
        low, high = symbols.bounds(r.polynomial)
        if low >= 0 and 0 <= over < by:
            below = (
                high < by
                if not isinstance(made, SymInt)
                else symbols.bounds(add(bottom, rest, -1))[0] > 0
            )
            if below:
                return q, r
    low, high = symbols.bounds(rest)
    spelled, divisor = spell(rest), spell(bottom)
    most = by - 1 if not isinstance(made, SymInt) else math.inf
    if not isinstance(made, SymInt):
        low, high = (n if math.isinf(n) else n // by for n in (low, high))  # inf // by is no number
    else:
        low, high = 0 if low >= 0 else -math.inf, max(high, 0)
    down = symbols.atom(
        f"({grouped(spelled)}/{grouped(divisor)})",
        quotient,
        low,
        high,
        (rest, by) if not isinstance(made, SymInt) else None,
    )
    left = symbols.atom(f"({grouped(spelled)}%{grouped(divisor)})", remainder, 0, most)
    return q + SymInt({(down,): 1}, quotient, symbols), SymInt({(left,): 1}, remainder, symbols)


def _value(polynomial: Polynomial, symbols: ShapeEnv) -> int:
    """The number at hand."""
    return sum(c * math.prod(symbols.atoms[a] for a in m) for m, c in polynomial.items())
