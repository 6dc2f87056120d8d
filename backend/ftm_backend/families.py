"""Families: traces that are alike but for numbers, and how the numbers of their members are related.

`split` takes a trace's text apart into what all members share and the numbers.  `relate` finds, from the numbers of some
members, which of them vary, and writes each of these as a polynomial over as few symbols as it can: equal, a multiple, a
product, a sum.  What it finds are guesses, which `Relation.values` proves for each new member: its numbers are those of the
polynomials, or it has no values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from ftm_backend.sizes import evaluator

__all__ = ["Relation", "relate", "split"]

_ARGUMENTS = frozenset((
    "C", "HxW", "N", "diagonal", "end", "index", "input_size", "input_sizes", "k", "length", "m", "n", "normalized_shape", "num_classes",
    "num_samples", "num_weights", "offset", "output_size", "pad", "repeats", "self_sizes", "shifts", "size", "sizes", "split_size",
    "split_sizes", "start", "steps", "storage_offset", "strides",
))
"""What counts elements or says where they are.  Others, such as dimensions, decide what is computed: members have them in common."""
_PART = re.compile(r'"(?:[^"\\]|\\.)*+"|(?<![\w.])(\w++)(?:(\[)[\d,]+\]|=(?:\[[-\d,]+\]|-?\d+(?![\w.])))')
"""A string, in which there are no numbers; what may be a type, ``f32[8,6]``; what may be an argument, ``sizes=[8,6]``."""
_TYPE = re.compile(r"[a-z]+\d+")
_NUMBER = re.compile(r"(?<![\w.])-?\d+")
_FACTORS = 12
_STEEP, _NEAR, _SURE = 4, 64, 3
"""A sum of a multiple of a symbol and a number is likely up to these; steeper ones are multiples of sums or beside one, as ``8*s0-8``
and ``8*s0+7``. What so many different members agree on is no accident."""


def split(text: str) -> tuple[str, tuple[int, ...]]:
    """What a trace's text shares with its family, and its numbers in order."""
    numbers: list[int] = []

    def part(found: re.Match[str]) -> str:
        words, here = _split_part(found[0])
        numbers.extend(here)
        return words

    return _PART.sub(part, text), tuple(numbers)


@functools.lru_cache(1 << 14)
def _split_part(words: str) -> tuple[str, tuple[int, ...]]:
    """The same of a part; a trace has few different ones."""
    found = _PART.fullmatch(words)
    assert found is not None
    return (_NUMBER.sub("#", words), tuple(map(int, _NUMBER.findall(words)))) if _varies(found) else (words, ())


def _spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """Where each number that may vary begins and ends, and whether it is a size of a tensor."""
    for part in _PART.finditer(text):
        if _varies(part):
            for number in _NUMBER.finditer(text, *part.span()):
                yield (*number.span(), part[2] is not None)


def _varies(part: re.Match[str]) -> bool:
    """Whether it is a type or an argument whose numbers may vary."""
    name = part[1]
    return name is not None and (name in _ARGUMENTS if part[2] is None else _TYPE.fullmatch(name) is not None)


@dataclass(frozen=True)
class Relation:
    """How the numbers of a family's members come from symbols.

    texts: for each number that varies its place among the numbers, and its polynomial; the other numbers are ``fixed``.
    symbols: name, the place where it is itself, and the least number that it may be.
    """

    fixed: tuple[tuple[int, int], ...]
    texts: tuple[tuple[int, str], ...]
    symbols: tuple[tuple[str, int, int], ...]
    _numbers: Callable[..., tuple[int, ...]]

    @classmethod
    def of(
        cls, fixed: Sequence[tuple[int, int]], texts: Sequence[tuple[int, str]], symbols: Sequence[tuple[str, int, int]]
    ) -> Relation:
        """A relation from its parts.

        Raises:
            SizeError: a text is no polynomial of the symbols.
        """
        numbers = evaluator([text for _, text in texts], tuple(name for name, _, _ in symbols))
        return cls(tuple(fixed), tuple(texts), tuple(symbols), numbers)

    def values(self, numbers: Sequence[int]) -> tuple[int, ...] | None:
        """The symbols' values in a member with these numbers; None if they are related otherwise."""
        values = tuple(numbers[place] for _, place, _ in self.symbols)
        if any(value < least for value, (_, _, least) in zip(values, self.symbols, strict=True)):
            return None
        if any(numbers[place] != number for place, number in self.fixed):
            return None
        try:
            found = self._numbers(*values)
        except ZeroDivisionError:
            return None
        return values if all(numbers[place] == n for (place, _), n in zip(self.texts, found, strict=True)) else None

    def general(self, text: str, values: Sequence[int]) -> str:
        """The general trace: a member's text with polynomials for the numbers that vary, after a line for each symbol."""
        spelled = dict(self.texts)
        pieces, at = [], 0
        for place, (start, end, _) in enumerate(_spans(text)):
            if place in spelled:
                pieces += [text[at:start], "{" + spelled[place] + "}"]
                at = end
        head, _, body = "".join([*pieces, text[at:]]).partition("\n")
        declared = [f"  size {name} = {value}, {least}" for (name, _, least), value in zip(self.symbols, values, strict=True)]
        return "\n".join([head, *declared, body])


def relate(members: Sequence[tuple[int, ...]], trace: str) -> Relation:
    """How the numbers of at least two members are related; ``trace`` is the text of one of them.

    A symbol that is a size of a tensor is general from 2 on: what is done with one element is often something else.
    """
    extents = {place for place, (_, _, is_extent) in enumerate(_spans(trace)) if is_extent}
    columns = list(zip(*members, strict=True))
    fixed = tuple((place, column[0]) for place, column in enumerate(columns) if len(set(column)) == 1)
    varying = [(place, column) for place, column in enumerate(columns) if len(set(column)) > 1]
    symbols: list[tuple[str, int, int]] = []
    known: dict[tuple[int, ...], str] = {}  # a column that was met, and its polynomial
    bases: list[tuple[str, tuple[int, ...]]] = []
    factors: list[tuple[str, tuple[int, ...]]] = []  # symbols, and sums of a symbol and a number
    # Symbols are taken from what varies least, and comes first, so that the rest are multiples, products and sums of them.
    for column in sorted(dict.fromkeys(column for _, column in varying), key=lambda column: max(column) - min(column)):
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
    return Relation.of(fixed, texts, symbols)


def _expressions(
    column: tuple[int, ...], bases: list[tuple[str, tuple[int, ...]]], factors: list[tuple[str, tuple[int, ...]]]
) -> Iterator[str]:
    """Polynomials of the symbols that give a column, the likeliest first."""
    for degree in (1, 2, 3):
        for chosen in combinations_with_replacement(factors[:_FACTORS] if degree < 3 else bases, degree):
            product = [1] * len(column)
            for _, values in chosen:
                product = [a * b for a, b in zip(product, values, strict=True)]
            if 0 in product:
                continue
            factor = column[0] // product[0]
            if factor and all(n == factor * p for n, p in zip(column, product, strict=True)):
                yield "*".join([*([str(factor)] if factor != 1 else []), *(name for name, _ in chosen)])
    for name, values in bases:
        steps = {(b - a, w - v) for a, b, v, w in zip(values, values[1:], column, column[1:], strict=False) if b != a or v != w}
        slopes = {rise // run for run, rise in steps if run and rise % run == 0}
        if len(slopes) == 1 and all(run and rise % run == 0 for run, rise in steps):
            slope = slopes.pop()
            rest = column[0] - slope * values[0]
            near = abs(rest) <= 2 * abs(slope) and any((rest + off) % slope == 0 for off in (-1, 0, 1))
            likely = (abs(slope) <= _STEEP and abs(rest) <= _NEAR) or near or len(set(values)) >= _SURE
            if likely and all(n == slope * v + rest for n, v in zip(column, values, strict=True)):
                yield f"{'' if slope == 1 else f'{slope}*'}{name}{rest:+d}"
