"""Programs for many sizes: an image, the places of the numbers in it that are sizes, and what has
to hold of these.

A general program is assembled like any other, from a text that has polynomials of symbols where
numbers stand (``{64*s0+1}``). The image that comes out is that of the numbers at hand; the
`ImageTemplate` beside it makes the images of others by writing numbers into their places, which
takes microseconds. Such an image is as good as one that was compiled for its sizes: nothing in it
is computed when it runs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftm_backend import assembler, symbolic
from ftm_backend.assembler import image_layout
from ftm_backend.assembler.immediate_bits import to_bits
from ftm_backend.symbolic import PLACEHOLDER, SymbolicExpressionError, evaluator, rounded
from ftm_backend.target.element_types import BY_TOKEN

__all__ = ["ImageTemplate", "TemplateError", "assemble"]

_NARROW = PLACEHOLDER >> 32
_HOLDS: dict[str, Callable[[int], bool]] = {
    "==": lambda n: n == 0,
    "!=": lambda n: n != 0,
    ">=": lambda n: n >= 0,
}
_MOST = 1 << 64
_MASK = (1 << 64) - 1
_TEXT_BYTES, _CHARACTER_BYTES, _PLACE_BYTES = 64, 12, 200
"""Measured with tracemalloc: a text is kept as a string and as code, and a place as a tuple and in
the arrays of `_writes`."""


class TemplateError(ValueError):
    """A program cannot be made general, or the bytes of a template are damaged."""


@dataclass(frozen=True, eq=False)
class ImageTemplate:
    """How to make the images of a general program.

    symbols: names, in the order of values. texts: the polynomials of all numbers that are sizes.
    places: for each such number in the image its first byte, how many bytes it has, and which
    polynomial it is. guards: polynomials, each with what is asked of it, one of ``== != >=`` 0, and
    the place in the compiler that asked.
    """

    symbols: tuple[str, ...]
    texts: tuple[str, ...]
    places: tuple[tuple[int, int, int], ...]
    guards: tuple[tuple[str, str, str], ...]

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about, with the functions that its texts are compiled to."""
        texts = [*self.texts, *(text for text, _, _ in self.guards)]
        return (
            _TEXT_BYTES * len(texts)
            + _CHARACTER_BYTES * sum(map(len, texts))
            + _PLACE_BYTES * len(self.places)
        )

    def admits(self, values: Sequence[int]) -> bool:
        """Whether the program is right for these values of the symbols."""
        equal, unequal, at_least = self._guards_by_relation
        try:
            return (
                not any(equal(*values))
                and all(unequal(*values))
                and min(at_least(*values), default=0) >= 0
            )
        except ZeroDivisionError:  # of a number that the symbols' least values do not allow
            return False

    def refusal(self, values: Sequence[int]) -> str:
        """The first guard that does not hold for these values, for people; empty where all do."""
        at = ", ".join(
            f"{symbol} = {value}" for symbol, value in zip(self.symbols, values, strict=True)
        )
        try:
            numbers = self._guard_values(*values)
        except ZeroDivisionError:
            return f"a guard divides by 0 where {at}"
        for (size, relation, place), number in zip(self.guards, numbers, strict=True):
            if not _HOLDS[relation](number):
                return f"{size} {relation} 0 does not hold where {at} ({place})"
        return ""

    @functools.cached_property
    def _guards_by_relation(self) -> list[Callable[..., tuple[int, ...]]]:
        """The numbers of the guards of each relation, in the order of `_HOLDS`."""
        return [
            evaluator([size for size, asked, _ in self.guards if asked == relation], self.symbols)
            for relation in _HOLDS
        ]

    def image(self, image: bytes, values: Sequence[int]) -> bytes:
        """The image for values that it admits, from that of any others.

        Raises:
            TemplateError: a number does not fit into its place.
        """
        try:
            numbers = self._bits(values)
        except (ArithmeticError, ValueError) as error:
            raise TemplateError(f"a number of the program cannot be computed: {error}") from None
        made = np.frombuffer(image, np.uint8).copy()
        if numbers and not -_MOST < min(numbers) <= max(numbers) < _MOST:
            raise TemplateError("a size is too large for a program")
        wide = np.array([number & _MASK for number in numbers], np.uint64)
        for kind, where, which in self._writes:
            chosen = wide[which]
            if kind is np.uint32 and (chosen >> np.uint64(32)).any():
                raise TemplateError("a size is too large for a program")
            made[where] = chosen.astype(kind).view(np.uint8)
        return made.tobytes()

    @functools.cached_property
    def _guard_values(self) -> Callable[..., tuple[int, ...]]:
        return evaluator([text for text, _, _ in self.guards], self.symbols)

    def _bits(self, values: Sequence[int]) -> list[int]:
        """What is written for each text: the number, or the bits of a floating one."""
        integers, ratios = self._numbers
        found = list(integers(*values))
        for place, token, number in zip(self._floating, self._tokens, ratios(*values), strict=True):
            found[place] = to_bits(rounded(float(number), token), BY_TOKEN[token])
        return found

    @functools.cached_property
    def _floating(self) -> list[int]:
        return [k for k, text in enumerate(self.texts) if ":" in text]

    @functools.cached_property
    def _tokens(self) -> list[str]:
        return [self.texts[k].partition(":")[0] for k in self._floating]

    @functools.cached_property
    def _numbers(self) -> tuple[Callable[..., tuple[Any, ...]], Callable[..., tuple[Any, ...]]]:
        texts = [text.rpartition(":")[2] for text in self.texts]
        return (
            evaluator(["0" if ":" in text else text for text in self.texts], self.symbols),
            evaluator([texts[k] for k in self._floating], self.symbols, real=True),
        )

    @functools.cached_property
    def _writes(self) -> list[tuple[type, np.ndarray, np.ndarray]]:
        """For each size of places its type, all bytes of the image that are written, and the number
        that each place gets."""
        writes: list[tuple[type, np.ndarray, np.ndarray]] = []
        for size, kind in ((8, np.uint64), (4, np.uint32)):
            starts = np.array([at for at, n, _ in self.places if n == size], np.int64)
            which = np.array([k for _, n, k in self.places if n == size], np.int64)
            writes.append((kind, (starts[:, None] + np.arange(size)).reshape(-1), which))
        return writes

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps([self.symbols, self.texts, self.places, self.guards]).encode()

    @classmethod
    def from_bytes(cls, data: bytes, image_bytes: int) -> ImageTemplate:
        """The reverse, for an image of so many bytes; raises TemplateError for what is no
        template."""
        try:
            symbols, texts, places, guards = json.loads(data)
            made = cls(
                tuple(symbols),
                tuple(texts),
                tuple((at, n, k) for at, n, k in places),
                tuple((t, r, p) for t, r, p in guards),
            )
            good = all(
                n in (4, 8) and 0 <= at <= image_bytes - n and 0 <= k < len(made.texts)
                for at, n, k in made.places
            )
            good = good and all(relation in _HOLDS for _, relation, _ in made.guards)
            values = [1] * len(made.symbols)
            good = (
                good
                and all(map(str.isidentifier, made.symbols))
                and made._numbers is not None
                and made._guard_values is not None
            )
        except (
            ValueError,
            TypeError,
            RecursionError,
            AttributeError,
            SymbolicExpressionError,
        ) as error:
            raise TemplateError(f"the general program is damaged: {error}") from None
        if not good or len(values) != len(set(made.symbols)):
            raise TemplateError("the general program is damaged: its places are not in its image")
        return made


def assemble(text: str) -> tuple[bytes, ImageTemplate | None]:
    """The image of a program, and, if there are symbols at hand, how to make others; the image is
    for the numbers at hand.

    Raises:
        AsmError: the text is no program.
        TemplateError: a size went where it cannot be found again.
    """
    symbols = symbolic.current()
    if symbols is None:
        return assembler.assemble(text), None
    with symbols.placing() as placed:
        image = assembler.assemble(text)
    places = [(at, size, found) for at, size, found in _placeholders(image, len(placed.texts))]
    if sorted(found for _, _, found in places) != list(range(len(placed.texts))):
        raise TemplateError("a size went into a part of the program that is not written as it is")
    texts = list(dict.fromkeys(placed.texts))
    number = {text: k for k, text in enumerate(texts)}
    guards = tuple((guard.size, guard.relation, guard.place) for guard in symbols.guards.values())
    made = ImageTemplate(
        tuple(symbols.values),
        tuple(texts),
        tuple((at, size, number[placed.texts[k]]) for at, size, k in places),
        guards,
    )
    return made.image(image, tuple(symbols.values.values())), made


def _placeholders(image: bytes, count: int) -> list[tuple[int, int, int]]:
    """First byte, bytes, and number of each placeholder in an image."""
    found: list[tuple[int, int, int]] = []
    header = 0
    for at, size in _integers(image_layout.HEADER.dtype):
        found += _look(image, np.array([header + at]), size, count)
    for number, (_, kind) in enumerate(image_layout.SECTIONS):
        entry = image_layout.HEADER.size + number * image_layout.SECTION.size
        start, records = image_layout.SECTION.struct.unpack_from(image, entry)
        if kind == "B" or not records:
            continue
        fields, step = (
            (list(_integers(kind.dtype)), kind.size)
            if isinstance(kind, image_layout.LayoutRecord)
            else ([(0, 8)], 8)
        )
        rows = start + np.arange(records) * step
        for at, size in fields:
            found += _look(image, rows + at, size, count)
    return found


def _integers(dtype: Any, start: int = 0) -> list[tuple[int, int]]:
    """First byte and size of every integer of 4 or 8 bytes of a record."""
    if dtype.subdtype is not None:
        base, (count,) = dtype.subdtype
        return [place for k in range(count) for place in _integers(base, start + k * base.itemsize)]
    if dtype.names is None:
        return [(start, dtype.itemsize)] if dtype.itemsize in (4, 8) else []
    return [
        place
        for name in dtype.names
        for place in _integers(dtype.fields[name][0], start + dtype.fields[name][1])
    ]


def _look(image: bytes, starts: np.ndarray, size: int, count: int) -> list[tuple[int, int, int]]:
    data = np.frombuffer(image, np.uint8)
    numbers: Any = (
        data[starts[:, None] + np.arange(size)]
        .copy()
        .view(np.uint64 if size == 8 else np.uint32)
        .reshape(-1)
    )
    base = PLACEHOLDER if size == 8 else _NARROW
    hits = np.flatnonzero((numbers >= base) & (numbers < base + count))
    return [(int(starts[k]), size, int(numbers[k]) - base) for k in hits]
