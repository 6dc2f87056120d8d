"""Analysis: fit polynomials to the numbers that vary in traces of the same structure.

Example: three traces differ only in sizes (8, 16), (10, 20) and (12, 24). `relate` writes them as
``s0`` and ``2*s0``. It guesses polynomials over as few symbols as possible: equal, a multiple, a
product, a sum. `ShapeRelation.values` then checks the guess for each new trace, and returns None if
its numbers do not satisfy the polynomials. `ftm_backend.ir.trace.shape_family` determines which
numbers of a trace may vary.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from ftm_backend.symbolic import compile_expressions

LEAST_EXTENT = 1
"""Least value of a symbol that is an extent of a tensor.

An extent of 1 often broadcasts. Where the compiler has to know that, it guards the program. Symbols
for offsets may be 0.
"""
_FACTORS = 12
"""At most this many symbols and sums are combined to products."""
_STEEP, _NEAR, _SURE = 4, 64, 3
"""Heuristics for an affine relation ``slope * symbol + intercept`` between two columns of numbers.

Accept it if the intercept is near a multiple of the slope (``8*s0-8``, ``8*s0+7``), or if it holds
for `_SURE` different values of the symbol: so many traces do not agree by accident. With fewer
different values, e.g. counts of tokens per expert, it needs `_SURE` traces, a slope up to `_STEEP`
and an intercept up to `_NEAR`.
"""


@dataclass(frozen=True)
class ShapeRelation:
    """Polynomials that give the numbers of every trace of a structure.

    Attributes:
        fixed: Position and value of each number that does not vary.
        texts: Position and polynomial of each number that varies.
        symbols: Name, position of a number that equals the symbol, and least value.
    """

    fixed: tuple[tuple[int, int], ...]
    texts: tuple[tuple[int, str], ...]
    symbols: tuple[tuple[str, int, int], ...]
    _numbers: Callable[..., tuple[int, ...]]

    @classmethod
    def of(
        cls,
        fixed: Sequence[tuple[int, int]],
        texts: Sequence[tuple[int, str]],
        symbols: Sequence[tuple[str, int, int]],
    ) -> ShapeRelation:
        """Create a relation from its parts.

        Raises:
            SymbolicExpressionError: A text is no polynomial of the symbols.
        """
        numbers = compile_expressions(
            [text for _, text in texts], tuple(name for name, _, _ in symbols)
        )
        return cls(tuple(fixed), tuple(texts), tuple(symbols), numbers)

    def values(self, numbers: Sequence[int]) -> tuple[int, ...] | None:
        """Return the symbols' values in a trace with these numbers; None if the relation fails."""
        values = self._values(numbers)
        if values is None:
            return None
        fixed, varying = self._checks
        if not fixed(numbers):
            return None
        try:
            found = self._numbers(*values)
        except ZeroDivisionError:
            return None
        return values if varying(numbers, found) else None

    def numbers(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return all numbers of the trace with these values of the symbols.

        Raises:
            ZeroDivisionError: A polynomial divides by zero for these values.
        """
        found = dict(self.fixed) | dict(
            zip((position for position, _ in self.texts), self._numbers(*values), strict=True)
        )
        return tuple(found[position] for position in range(len(found)))

    def _values(self, numbers: Sequence[int]) -> tuple[int, ...] | None:
        values = tuple(numbers[position] for _, position, _ in self.symbols)
        return (
            None
            if any(value < least for value, (_, _, least) in zip(values, self.symbols, strict=True))
            else values
        )

    def violations(self, numbers: Sequence[int]) -> list[int]:
        """Return the positions of numbers that violate the relation.

        The result is empty if a symbol would be less than its least value.
        """
        values = self._values(numbers)
        if values is None:
            return []
        positions = [position for position, number in self.fixed if numbers[position] != number]
        try:
            found = self._numbers(*values)
        except ZeroDivisionError:
            return positions
        return positions + [
            position
            for (position, _), number in zip(self.texts, found, strict=True)
            if numbers[position] != number
        ]

    @functools.cached_property
    def _checks(
        self,
    ) -> tuple[Callable[[Sequence[int]], bool], Callable[[Sequence[int], tuple[int, ...]], bool]]:
        """Predicates: whether fixed numbers are as expected, and varying ones as computed."""
        numbers = tuple(number for _, number in self.fixed)
        fixed, varying = (
            _select([position for position, _ in self.fixed]),
            _select([position for position, _ in self.texts]),
        )
        return lambda given: fixed(given) == numbers, lambda given, found: varying(given) == found


def _select(positions: Sequence[int]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """Return a function that selects the numbers at these positions as a tuple."""
    if len(positions) < 2:  # itemgetter returns a tuple only for two or more items
        return lambda numbers: tuple(numbers[position] for position in positions)
    return operator.itemgetter(*positions)


def relate(members: Sequence[tuple[int, ...]], extents: Collection[int]) -> ShapeRelation:
    """Find the relation of the numbers of at least two traces of the same structure.

    Args:
        members: The numbers of each trace.
        extents: The positions of numbers that are extents of tensors.
    """
    columns = list(zip(*members, strict=True))
    fixed = tuple(
        (position, column[0]) for position, column in enumerate(columns) if len(set(column)) == 1
    )
    varying = [
        (position, column) for position, column in enumerate(columns) if len(set(column)) > 1
    ]
    symbols: list[tuple[str, int, int]] = []
    polynomials: dict[tuple[int, ...], str] = {}  # polynomials by column
    bases: list[tuple[str, tuple[int, ...]]] = []
    factors: list[tuple[str, tuple[int, ...]]] = []  # symbols, and sums of a symbol and a constant
    # Introduce symbols for the columns with the smallest range first, so that other columns become
    # multiples, products and sums of them.
    for column in sorted(
        dict.fromkeys(column for _, column in varying), key=lambda column: max(column) - min(column)
    ):
        text = next(_expressions(column, bases, factors), "")
        if not text:
            text = f"s{len(symbols)}"
            position = next(position for position, other in varying if other == column)
            low = min(column)
            sized = any(other == column and p in extents for p, other in varying)
            symbols.append(
                (text, position, LEAST_EXTENT if sized else 0 if low >= 0 else -(1 << 62))
            )
            bases.append((text, column))
            factors.append((text, column))
        elif text[-1].isdigit() and ("+" in text or "-" in text):
            factors.append((f"({text})", column))
        polynomials[column] = text
    texts = tuple((position, polynomials[column]) for position, column in varying)
    return ShapeRelation.of(fixed, texts, symbols)


def _expressions(
    column: tuple[int, ...],
    bases: list[tuple[str, tuple[int, ...]]],
    factors: list[tuple[str, tuple[int, ...]]],
) -> Iterator[str]:
    """Yield polynomials of the symbols that reproduce a column, the most likely first."""
    yield from _products(column, bases, factors)
    for name, values in bases:
        line = _line(column, values)
        if line is not None:
            slope, intercept = line
            yield f"{'' if slope == 1 else f'{slope}*'}{name}{intercept:+d}"


def _products(
    column: tuple[int, ...],
    bases: list[tuple[str, tuple[int, ...]]],
    factors: list[tuple[str, tuple[int, ...]]],
) -> Iterator[str]:
    """Yield products of up to three symbols and a factor that reproduce a column."""
    for degree in (1, 2, 3):
        for chosen in combinations_with_replacement(
            factors[:_FACTORS] if degree < 3 else bases, degree
        ):
            product = [1] * len(column)
            for _, values in chosen:
                product = [a * b for a, b in zip(product, values, strict=True)]
            if 0 in product:
                continue
            factor = column[0] // product[0]
            if factor and all(n == factor * p for n, p in zip(column, product, strict=True)):
                yield "*".join(
                    [*([str(factor)] if factor != 1 else []), *(name for name, _ in chosen)]
                )


def _line(column: tuple[int, ...], values: tuple[int, ...]) -> tuple[int, int] | None:
    """Return slope and intercept if a column is a likely linear function of a symbol's values."""
    differences = {
        (b - a, w - v)
        for a, b, v, w in zip(values, values[1:], column, column[1:], strict=False)
        if b != a or v != w
    }
    slopes = {rise // run for run, rise in differences if run and rise % run == 0}
    if len(slopes) != 1 or any(not run or rise % run for run, rise in differences):
        return None
    slope = slopes.pop()
    intercept = column[0] - slope * values[0]
    is_near_multiple = abs(intercept) <= 2 * abs(slope) and any(
        (intercept + off) % slope == 0 for off in (-1, 0, 1)
    )
    is_small = abs(slope) <= _STEEP and abs(intercept) <= _NEAR
    is_likely = is_near_multiple or len(set(values)) >= _SURE or (is_small and len(values) >= _SURE)
    fits = all(n == slope * v + intercept for n, v in zip(column, values, strict=True))
    return (slope, intercept) if is_likely and fits else None
