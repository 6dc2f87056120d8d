"""What a compiler asks of sizes beside arithmetic and comparisons."""

from __future__ import annotations

from typing import TypeGuard

from ftm_backend.symbolic.expression_compiler import SymbolicExpressionError
from ftm_backend.symbolic.symint import SymInt

__all__ = [
    "always_equal",
    "as_integer",
    "at_hand",
    "ceildiv",
    "divides",
    "enough_bits",
    "greater",
    "is_integer",
    "is_walked",
    "lower_bound",
    "narrow",
    "never_less",
    "never_negative",
    "seen_equal",
    "upper_bound",
]

_FAR = 4
"""So many times as large as at hand, or more, a size may be in a program that had to choose."""


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer or a size; booleans are none."""
    return isinstance(value, (int, SymInt)) and not isinstance(value, bool)


def is_walked(extent: int) -> bool:
    """Whether a loop is written for an extent; without a guard: one that varies is walked where it
    is 1 as well."""
    return isinstance(extent, SymInt) or extent > 1


def as_integer(number: float) -> int:
    """A finite number that is an integer, or a size, as such."""
    return number if isinstance(number, SymInt) else int(number)


def at_hand(size: int) -> int:
    """The number that a size is in the program at hand, without a guard: for choices that every
    number allows."""
    return size.value if isinstance(size, SymInt) else size


def enough_bits(size: int) -> int:
    """Bits for a number that is not negative, where more are right as well.

    Of one that varies they are enough for all up to `_FAR` times that at hand, and a guard refuses
    larger ones.
    """
    bits = at_hand(size).bit_length()
    if isinstance(size, SymInt):
        bits += _FAR.bit_length()
        if not size < 1 << bits:
            raise SymbolicExpressionError(f"{size.value} has more than {bits} bits")
    return bits


def ceildiv(size: int, by: int) -> int:
    """``size / by``, rounded up."""
    return -(-size // by)


def divides(divisor: int, size: int) -> bool:
    """Whether ``size`` is a multiple of ``divisor`` for all values of the symbols; without a
    guard."""
    if isinstance(divisor, SymInt) and not isinstance(size, SymInt):
        return size == 0
    rest = size % divisor
    return not isinstance(rest, SymInt) and rest == 0


def lower_bound(size: int) -> int:
    """A number that an extent is never below; without a guard."""
    return int(max(size.bounds[0], 0)) if isinstance(size, SymInt) else size


def upper_bound(size: int) -> int:
    """A number that a size is never above: the greatest that it can be if that is near, else twice
    that at hand, with a guard."""
    if not isinstance(size, SymInt):
        return size
    bound = int(min(size.bounds[1], 2 * size.value))
    if size > bound:  # never: the comparison writes the guard
        raise SymbolicExpressionError(f"{size.value} is above its bound {bound}")
    return bound


def always_equal(left: float, right: float) -> bool:
    """Whether two numbers are equal for all values of the symbols; without a guard."""
    difference = left - right
    return not isinstance(difference, SymInt) and difference == 0


def seen_equal(left: float, right: float) -> bool:
    """Whether two numbers are equal, for choices that are right where the answer is no: a guard
    only where they are equal at hand."""
    return at_hand(left) == at_hand(right) and left == right  # type: ignore[arg-type]


def seen_less(left: int, right: int) -> bool:
    """Whether one number is less than another, for choices that are right where the answer is no: a
    guard only where it is less at hand."""
    return at_hand(left) < at_hand(right) and left < right


def never_negative(difference: float) -> bool:
    """Whether a number is not negative for all values of the symbols; without a guard."""
    if not isinstance(difference, SymInt):
        return difference >= 0
    return difference.value >= 0 and difference.bounds[0] >= 0


def never_less(left: int, right: int) -> bool:
    """``never_negative(left - right)``, for those who compare all with all: most of it the numbers
    at hand decide."""
    return at_hand(left) >= at_hand(right) and never_negative(left - right)


def greater(left: int, right: int) -> int:
    """The greater of two numbers; with a guard only where it depends on the symbols which of them
    that is."""
    if never_less(left, right):
        return left
    return right if never_less(right, left) else max(left, right)


def narrow(size: int) -> int:
    """A size for a field of 32 bits, while an image is made."""
    if not isinstance(size, SymInt):
        return size
    wide = size.__index__()
    # of a placeholder: what tells it from other numbers, and its number
    return wide >> 32 | wide & 0xFFFF
