"""Queries on sizes: hints, comparisons without guards, and conversions that specialize.

There are three kinds of comparison. `statically_known_equal`, `statically_known_nonnegative`,
`statically_known_ge` and `divides` record no guard, and return True only if the answer holds for
all values of the symbols. `guarded_equal` and `guarded_less` guard only the answer True. The
operators of `SymInt` guard either answer.
"""

from __future__ import annotations

from typing import TypeGuard

from ftm_backend.symbolic.expression_compiler import SymbolicExpressionError
from ftm_backend.symbolic.symint import SymInt

_MAX_GROWTH = 4
"""Growth that a program allows for where it fixes a bit width: values up to 4 times the hint."""


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer or a `SymInt`, but not a boolean."""
    return isinstance(value, (int, SymInt)) and not isinstance(value, bool)


def may_exceed_one(extent: int) -> bool:
    """Whether an extent may exceed 1, so that it needs a loop; records no guard.

    A symbolic extent counts as a loop even where its value is 1.
    """
    return isinstance(extent, SymInt) or extent > 1


def as_integer(number: float) -> int:
    """Convert a finite integral number to int; return a `SymInt` unchanged."""
    return number if isinstance(number, SymInt) else int(number)


def size_hint(size: int) -> int:
    """Return the hint without a guard, for decisions that are correct for every value."""
    return size.value if isinstance(size, SymInt) else size


def sufficient_bits(size: int) -> int:
    """Return a bit width that holds a nonnegative number; a larger width is correct as well.

    For a symbolic size it suffices up to `_MAX_GROWTH` times the hint; a guard rejects larger
    values.
    """
    bits = size_hint(size).bit_length()
    if isinstance(size, SymInt):
        bits += _MAX_GROWTH.bit_length()
        if not size < 1 << bits:
            raise SymbolicExpressionError(f"{size.value} has more than {bits} bits")
    return bits


def ceildiv(size: int, by: int) -> int:
    """Return ``size / by``, rounded up."""
    return -(-size // by)


def divides(divisor: int, size: int) -> bool:
    """Whether `size` is a multiple of `divisor` for all values of the symbols; records no guard."""
    if isinstance(divisor, SymInt) and not isinstance(size, SymInt):
        return size == 0
    remainder = size % divisor
    return not isinstance(remainder, SymInt) and remainder == 0


def lower_bound(size: int) -> int:
    """Return a lower bound of an extent; records no guard."""
    return int(max(size.bounds[0], 0)) if isinstance(size, SymInt) else size


def upper_bound(size: int) -> int:
    """Return an upper bound of a size.

    It is the largest possible value, or twice the hint with a guard if that is less.
    """
    if not isinstance(size, SymInt):
        return size
    bound = int(min(size.bounds[1], 2 * size.value))
    if size > bound:  # never true; the comparison records the guard
        raise SymbolicExpressionError(f"{size.value} is above its bound {bound}")
    return bound


def statically_known_equal(left: float, right: float) -> bool:
    """Whether two numbers are equal for all values of the symbols; records no guard."""
    difference = left - right
    return not isinstance(difference, SymInt) and difference == 0


def guarded_equal(left: float, right: float) -> bool:
    """Whether two numbers are equal; records a guard only if the answer is True.

    Use it where the answer False is always correct, e.g. to choose a faster path.
    """
    return size_hint(left) == size_hint(right) and left == right  # type: ignore[arg-type]


def guarded_less(left: int, right: int) -> bool:
    """Whether `left` is less than `right`; records a guard only if the answer is True.

    Use it where the answer False is always correct.
    """
    return size_hint(left) < size_hint(right) and left < right


def statically_known_nonnegative(difference: float) -> bool:
    """Whether a number is nonnegative for all values of the symbols; records no guard."""
    if not isinstance(difference, SymInt):
        return difference >= 0
    return difference.value >= 0 and difference.bounds[0] >= 0


def statically_known_ge(left: int, right: int) -> bool:
    """Return ``statically_known_nonnegative(left - right)``.

    The hints decide most cases without arithmetic.
    """
    return size_hint(left) >= size_hint(right) and statically_known_nonnegative(left - right)


def sym_max(left: int, right: int) -> int:
    """Return the larger number; records a guard only if the order depends on the symbols."""
    if statically_known_ge(left, right):
        return left
    return right if statically_known_ge(right, left) else max(left, right)
