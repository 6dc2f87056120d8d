"""Families: traces that are alike but for numbers, and how the numbers of their members are
related.

`relate` finds, from the numbers of some members, which of them vary, and writes each of these as a
polynomial over as few symbols as it can: equal, a multiple, a product, a sum. What it finds are
guesses, which `ShapeRelation.values` proves for each new member: its numbers are those of the
polynomials, or it has no values. Which numbers of a trace may vary the recorder knows
(``csrc/graph/shape_family.h``).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from ftm_backend.symbolic import evaluator

__all__ = ["Places", "ShapeRelation", "relate"]

Places = Sequence[tuple[int, int, bool]]
"""Where each number that may vary begins and ends in the text of a trace, and whether it is an
extent of a tensor."""


_FACTORS = 12
_STEEP, _NEAR, _SURE = 4, 64, 3
"""A sum of a multiple of a symbol and a number is likely if it is a multiple of a sum or beside
one, as ``8*s0-8`` and ``8*s0+7``, and, among so many members, up to these: two differ by the same
somewhere if there are a few sizes, as tokens of experts. What so many different members agree on is
no accident."""


@dataclass(frozen=True)
class ShapeRelation:
    """How the numbers of a family's members come from symbols.

    texts: for each number that varies its place among the numbers, and its polynomial; the other
    numbers are ``fixed``. symbols: name, the place where it is itself, and the least number that it
    may be.
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
        """A relation from its parts.

        Raises:
            SizeError: a text is no polynomial of the symbols.
        """
        numbers = evaluator([text for _, text in texts], tuple(name for name, _, _ in symbols))
        return cls(tuple(fixed), tuple(texts), tuple(symbols), numbers)

    def values(self, numbers: Sequence[int]) -> tuple[int, ...] | None:
        """The symbols' values in a member with these numbers; None if they are related
        otherwise."""
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
        """All numbers of the member with these values.

        Raises:
            ZeroDivisionError: there is none.
        """
        found = dict(self.fixed) | dict(
            zip((place for place, _ in self.texts), self._numbers(*values), strict=True)
        )
        return tuple(found[place] for place in range(len(found)))

    def _values(self, numbers: Sequence[int]) -> tuple[int, ...] | None:
        values = tuple(numbers[place] for _, place, _ in self.symbols)
        return (
            None
            if any(value < least for value, (_, _, least) in zip(values, self.symbols, strict=True))
            else values
        )

    def wrong(self, numbers: Sequence[int]) -> list[int]:
        """The places of a member's numbers that are related otherwise; none where a symbol would be
        less than it may."""
        values = self._values(numbers)
        if values is None:
            return []
        places = [place for place, number in self.fixed if numbers[place] != number]
        try:
            found = self._numbers(*values)
        except ZeroDivisionError:
            return places
        return places + [
            place
            for (place, _), number in zip(self.texts, found, strict=True)
            if numbers[place] != number
        ]

    @functools.cached_property
    def _checks(
        self,
    ) -> tuple[Callable[[Sequence[int]], bool], Callable[[Sequence[int], tuple[int, ...]], bool]]:
        """Of a member's numbers: whether those that do not vary are those of all, and whether the
        others are what was found for them."""
        numbers = tuple(number for _, number in self.fixed)
        fixed, varying = (
            _taken([place for place, _ in self.fixed]),
            _taken([place for place, _ in self.texts]),
        )
        return lambda given: fixed(given) == numbers, lambda given, found: varying(given) == found

    def general(self, text: str, places: Places, values: Sequence[int]) -> str:
        """The general trace: a member's text with polynomials for the numbers that vary, after a
        line for each symbol."""
        spelled = dict(self.texts)
        pieces, at = [], 0
        for place, (start, end, _) in enumerate(places):
            if place in spelled:
                pieces += [text[at:start], "{" + spelled[place] + "}"]
                at = end
        head, _, body = "".join([*pieces, text[at:]]).partition("\n")
        declared = [
            f"  size {name} = {value}, {least}"
            for (name, _, least), value in zip(self.symbols, values, strict=True)
        ]
        return "\n".join([head, *declared, body])


def _taken(places: Sequence[int]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """A function that takes the numbers at these places."""
    if len(places) < 2:  # for which there would be no tuple
        return lambda numbers: tuple(numbers[place] for place in places)
    return operator.itemgetter(*places)


def relate(members: Sequence[tuple[int, ...]], places: Places) -> ShapeRelation:
    """How the numbers of at least two members are related; ``places``: of the numbers in the text
    of one of them.

    A symbol that is a size of a tensor is general from 2 on: what is done with one element is often
    something else.
    """
    extents = {place for place, (_, _, is_extent) in enumerate(places) if is_extent}
    columns = list(zip(*members, strict=True))
    fixed = tuple(
        (place, column[0]) for place, column in enumerate(columns) if len(set(column)) == 1
    )
    varying = [(place, column) for place, column in enumerate(columns) if len(set(column)) > 1]
    symbols: list[tuple[str, int, int]] = []
    known: dict[tuple[int, ...], str] = {}  # a column that was met, and its polynomial
    bases: list[tuple[str, tuple[int, ...]]] = []
    factors: list[tuple[str, tuple[int, ...]]] = []  # symbols, and sums of a symbol and a number
    # Symbols are taken from what varies least, and comes first, so that the rest are multiples,
    # products and sums of them.
    for column in sorted(
        dict.fromkeys(column for _, column in varying), key=lambda column: max(column) - min(column)
    ):
        text = next(_expressions(column, bases, factors), "")
        if not text:
            text = f"s{len(symbols)}"
            place = next(place for place, other in varying if other == column)
            low = min(column)
            sized = any(other == column and p in extents for p, other in varying)
            symbols.append((text, place, 2 if sized else 0 if low >= 0 else -(1 << 62)))
            bases.append((text, column))
            factors.append((text, column))
        elif text[-1].isdigit() and ("+" in text or "-" in text):
            factors.append((f"({text})", column))
        known[column] = text
    texts = tuple((place, known[column]) for place, column in varying)
    return ShapeRelation.of(fixed, texts, symbols)


def _expressions(
    column: tuple[int, ...],
    bases: list[tuple[str, tuple[int, ...]]],
    factors: list[tuple[str, tuple[int, ...]]],
) -> Iterator[str]:
    """Polynomials of the symbols that give a column, the likeliest first."""
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
    for name, values in bases:
        steps = {
            (b - a, w - v)
            for a, b, v, w in zip(values, values[1:], column, column[1:], strict=False)
            if b != a or v != w
        }
        slopes = {rise // run for run, rise in steps if run and rise % run == 0}
        if len(slopes) == 1 and all(run and rise % run == 0 for run, rise in steps):
            slope = slopes.pop()
            rest = column[0] - slope * values[0]
            near = abs(rest) <= 2 * abs(slope) and any(
                (rest + off) % slope == 0 for off in (-1, 0, 1)
            )
            flat = abs(slope) <= _STEEP and abs(rest) <= _NEAR
            likely = near or len(set(values)) >= _SURE or (flat and len(values) >= _SURE)
            if likely and all(n == slope * v + rest for n, v in zip(column, values, strict=True)):
                yield f"{'' if slope == 1 else f'{slope}*'}{name}{rest:+d}"
