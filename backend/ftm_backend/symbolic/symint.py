"""`SymInt`: an integer with the polynomial that it equals.

Rules for callers: `__index__` and `__int__` specialize, comparisons guard, arithmetic and printing
do neither.
"""

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


_MAX_TERMS = 48
"""Maximum number of terms of a product. Longer polynomials do not come from shapes; specialize
them."""


class SymInt:
    """An integer with a polynomial over symbols and a hint.

    Arithmetic on symbols makes instances; construct them only in this package.

    Attributes:
        polynomial: Coefficients by monomial.
        value: The hint, i.e. the value for the example shapes.
    """

    __slots__ = ("_bounds", "_products", "_sums", "_symbols", "_text", "polynomial", "value")

    def __init__(self, polynomial: Polynomial, value: int, symbols: ShapeEnv) -> None:
        """Create a size.

        Args:
            polynomial: Coefficients by monomial; not constant.
            value: The hint.
            symbols: The environment that declares the symbols and collects guards.
        """
        self.polynomial, self.value, self._symbols = polynomial, value, symbols
        self._text = ""
        self._bounds: tuple[float, float] | None = None
        # Results by the other operand (a number, or a SymInt's text). Programs repeat the same few
        # operations, and a cached result already has its text and bounds.
        self._sums: dict[int | str, SymInt | int] = {}
        self._products: dict[int | str, SymInt | int] = {}

    @property
    def text(self) -> str:
        """The polynomial as text, in canonical order."""
        if not self._text:
            self._text = spell(self.polynomial)
        return self._text

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        if self._bounds is None:
            self._bounds = self._symbols.bounds(self.polynomial)
        return self._bounds

    @property
    def monomial(self) -> tuple[int, tuple[str, ...]] | None:
        """The coefficient and the atoms if this is a single monomial, else None."""
        if len(self.polynomial) != 1:
            return None
        ((atoms, factor),) = self.polynomial.items()
        return factor, atoms

    def product(self, atoms: Sequence[str]) -> SymInt:
        """Return the product of `atoms`, which occur in this size."""
        return SymInt(
            {tuple(sorted(atoms)): 1},
            math.prod(self._symbols.atoms[atom] for atom in atoms),
            self._symbols,
        )

    def __str__(self) -> str:
        """Return the text in braces, which `parse_size` parses."""
        return "{" + self.text + "}"

    __repr__ = __str__

    def __format__(self, format_spec: str) -> str:
        """Format with a leading ``+`` if the format specification begins with one."""
        return f"+{self}" if format_spec.startswith("+") else str(self)

    def __hash__(self) -> int:
        """Hash the canonical text."""
        return hash(self.text)

    # --- arithmetic
    # -----------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        """Return ``self + other``."""
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
            return self._add_constant(other)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        """Return ``self - other``."""
        if isinstance(other, float):
            return self + -other
        if isinstance(other, SymInt):
            return self + -other
        if isinstance(other, int):
            return self._add_constant(-other)
        return NotImplemented

    def _add_constant(self, constant: int) -> SymInt | int:
        """Add a constant."""
        if not constant:
            return self
        found = self._sums.get(constant)
        if found is None:
            polynomial = dict(self.polynomial)
            total = polynomial.pop((), 0) + constant
            if total:
                polynomial[()] = total
            found = self._sums[constant] = SymInt(polynomial, self.value + constant, self._symbols)
        return found

    def __rsub__(self, other: object) -> Any:
        """Return ``other - self``."""
        return -self + other if isinstance(other, (int, float)) else NotImplemented

    def __neg__(self) -> SymInt:
        """Return ``-self``."""
        return cast(SymInt, self * -1)

    def __pos__(self) -> SymInt:
        """Return ``+self``."""
        return self

    def __mul__(self, other: object) -> Any:
        """Return ``self * other``."""
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

    def _times(self, other: SymInt) -> SymInt | int:
        if len(self.polynomial) * len(other.polynomial) > _MAX_TERMS:
            return int(self) * int(other)
        product: Polynomial = {}
        for a, x in self.polynomial.items():
            for b, y in other.polynomial.items():
                monomial = tuple(sorted(a + b))
                product[monomial] = product.get(monomial, 0) + x * y
        return _make(product, self.value * other.value, self._symbols)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> SymInt | int:
        """Return ``self ** power``."""
        return math.prod([self] * power)

    def __lshift__(self, bits: int) -> SymInt | int:
        """Return ``self << bits``."""
        return self * (1 << bits)

    def __rshift__(self, bits: int) -> SymInt | int:
        """Return ``self >> bits``."""
        return self // (1 << bits)

    def __floordiv__(self, other: object) -> SymInt | int:
        """Return ``self // other``."""
        return self.__divmod__(other)[0] if isinstance(other, (int, SymInt)) else NotImplemented

    def __mod__(self, other: object) -> SymInt | int:
        """Return ``self % other``."""
        return self.__divmod__(other)[1] if isinstance(other, (int, SymInt)) else NotImplemented

    def __rfloordiv__(self, other: object) -> SymInt | int:
        """Return ``other // self``."""
        return self.__rdivmod__(other)[0] if isinstance(other, int) else NotImplemented

    def __rmod__(self, other: object) -> SymInt | int:
        """Return ``other % self``."""
        return self.__rdivmod__(other)[1] if isinstance(other, int) else NotImplemented

    def __divmod__(self, other: SymInt | int) -> tuple[SymInt | int, SymInt | int]:
        """Return ``divmod(self, other)``."""
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

    def __rdivmod__(self, other: int) -> tuple[SymInt | int, SymInt | int]:
        """Return ``divmod(other, self)``."""
        constant: Polynomial = {(): other} if other else {}
        return _divide(constant, other, self.polynomial, self.value, self._symbols)

    def __abs__(self) -> SymInt:
        """Return ``abs(self)``."""
        return self if self >= 0 else -self

    def __round__(self, digits: int | None = None) -> SymInt:
        """Return self; a size is integral."""
        return self

    def __ceil__(self) -> SymInt:
        """Return self; a size is integral."""
        return self

    __floor__ = __trunc__ = __ceil__

    # --- comparisons: guards
    # --------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Compare the hints, and guard the answer unless the bounds prove it."""
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
        """Return ``self != other``."""
        return not self == other

    def __ge__(self, other: SymInt | float) -> bool:
        """Compare the hints, and guard the answer unless the bounds prove it."""
        if isinstance(other, float):
            return other < 0 if math.isinf(other) else self >= math.ceil(other)
        if isinstance(other, int) and (other <= self.bounds[0] or other > self.bounds[1]):
            return other <= self.bounds[0]
        return _not_negative(self - other)

    def __gt__(self, other: SymInt | float) -> bool:
        """Return ``self > other``."""
        if isinstance(other, float):
            return other < 0 if math.isinf(other) else self > math.floor(other)
        return self >= other + 1

    def __le__(self, other: SymInt | float) -> bool:
        """Return ``self <= other``."""
        return not self > other

    def __lt__(self, other: SymInt | float) -> bool:
        """Return ``self < other``."""
        return not self >= other

    def __bool__(self) -> bool:
        """Return ``bool(self)``."""
        return self != 0

    # --- where a number is taken
    # ----------------------------------------------------------------------

    def __index__(self) -> int:
        """Specialize: guard equality with the hint and return it."""
        self._symbols.require(_signed(self - self.value), "==")
        return self.value

    __int__ = __index__

    def __float__(self) -> float:
        """Specialize, and return the hint as a float."""
        return float(self.__index__())

    def __truediv__(self, other: SymInt | float) -> SymFloat:
        """Return ``self / other``."""
        return _real("/", self, other)

    def __rtruediv__(self, other: float) -> SymFloat:
        """Return ``other / self``."""
        return _real("/", other, self)

    def __and__(self, other: SymInt | int) -> int:
        """Return ``self & other``."""
        return int(self) & int(other)

    __rand__ = __and__

    def __or__(self, other: SymInt | int) -> int:
        """Return ``self | other``."""
        return int(self) | int(other)

    __ror__ = __or__

    def bit_length(self) -> int:
        """Return the hint's bit length; guard that it stays the same."""
        bits = abs(self.value).bit_length()
        # always true; the comparisons record the guards
        if not (1 << bits) >> 1 <= abs(self) < 1 << bits:
            raise SymbolicExpressionError(f"{self.value} has not {bits} bits")
        return bits


def _real(symbol: str, left: SymInt | float, right: SymInt | float) -> SymFloat:
    from ftm_backend.symbolic.symfloat import operation

    return operation(symbol, left, right)


def _make(polynomial: Polynomial, value: int, symbols: ShapeEnv) -> SymInt | int:
    """Return a SymInt, or a plain integer if the polynomial is constant."""
    if 0 in polynomial.values():
        polynomial = {m: c for m, c in polynomial.items() if c}
    if not polynomial or (len(polynomial) == 1 and () in polynomial):
        return value
    return SymInt(polynomial, value, symbols)


def _signed(size: SymInt) -> SymInt:
    """Return the size or its negative, whichever has a positive first coefficient.

    Both are zero for the same symbols, so they share one guard.
    """
    first = min(size.polynomial)
    return size if size.polynomial[first] > 0 else -size


def _not_negative(difference: SymInt | float) -> bool:
    """Compare with 0 by the hint, and guard the answer unless the bounds prove it."""
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
) -> tuple[SymInt | int, SymInt | int]:
    """Return quotient and remainder, rounded toward negative infinity like Python's.

    Args:
        top: The dividend.
        value: The dividend's hint.
        bottom: The divisor.
        by: The divisor's hint.
        symbols: The environment.
    """
    if by == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    divisor_size = _make(bottom, by, symbols)
    if isinstance(divisor_size, SymInt):
        if not divisor_size > 0:
            return divmod(int(_make(top, value, symbols)), int(divisor_size))
        return _divide_by_size(top, value, bottom, by, symbols)
    if by < 0:
        quotient = -_make(top, value, symbols) // -by
        return quotient, _make(top, value, symbols) - quotient * by
    return _divide_by_number(top, value, by, symbols)


def _divide_by_number(
    top: Polynomial, value: int, by: int, symbols: ShapeEnv
) -> tuple[SymInt | int, SymInt | int]:
    """Divide by a positive number."""
    # canonical form: -(-n // 16) becomes (n + 15) // 16
    if leads_negative(top):
        raised = _make(
            add({m: -c for m, c in top.items()}, {(): by - 1}, 1), by - 1 - value, symbols
        )
        quotient = -(raised // by)
        return quotient, _make(top, value, symbols) - quotient * by
    whole, rest = parts(top, by)
    excess = value - _value(whole, symbols) * by
    q, r = _make(whole, _value(whole, symbols), symbols), _make(rest, excess, symbols)
    if not isinstance(r, SymInt):
        return q + excess // by, excess % by
    low, high = symbols.bounds(rest)
    if low >= 0 and high < by and 0 <= excess < by:
        return q, r
    low, high = (n if math.isinf(n) else n // by for n in (low, high))  # inf // by is NaN
    dividend = grouped(spell(rest))
    down = symbols.atom(f"({dividend}/{by})", excess // by, low, high, (rest, by))
    left = symbols.atom(f"({dividend}%{by})", excess % by, 0, by - 1)
    return q + SymInt({(down,): 1}, excess // by, symbols), SymInt(
        {(left,): 1}, excess % by, symbols
    )


def _divide_by_size(
    top: Polynomial, value: int, bottom: Polynomial, by: int, symbols: ShapeEnv
) -> tuple[SymInt | int, SymInt | int]:
    """Divide by a symbolic size that is positive."""
    whole, rest = exact(top, bottom)
    excess = value - _value(whole, symbols) * by
    q, r = _make(whole, _value(whole, symbols), symbols), _make(rest, excess, symbols)
    low, high = symbols.bounds(rest)
    if not isinstance(r, SymInt):
        if excess == 0 or (excess > 0 and _make(bottom, by, symbols) > excess):
            return q, excess
    elif low >= 0 and 0 <= excess < by and symbols.bounds(add(bottom, rest, -1))[0] > 0:
        return q, r
    dividend, divisor = grouped(spell(rest)), grouped(spell(bottom))
    least = 0 if low >= 0 else -math.inf
    down = symbols.atom(f"({dividend}/{divisor})", excess // by, least, max(high, 0), None)
    left = symbols.atom(f"({dividend}%{divisor})", excess % by, 0, math.inf)
    return q + SymInt({(down,): 1}, excess // by, symbols), SymInt(
        {(left,): 1}, excess % by, symbols
    )


def _value(polynomial: Polynomial, symbols: ShapeEnv) -> int:
    """Evaluate a polynomial with the hints."""
    return sum(c * math.prod(symbols.atoms[a] for a in m) for m, c in polynomial.items())
