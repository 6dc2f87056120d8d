"""Windows of values whose rows vary: their numbers are one size or two.

Of a *cropped* one some rows were left out, as of a cache whose candidates were thrown away. Those
that new rows are put behind are such windows as well where no row was left out: the next one may be
cropped.

A *turned* one has its rows behind a dimension that lies inside of them, as one of the heads that a
layer computes for each row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["CacheWindow", "TransposedWindow", "cropped", "turned"]

_ROW = re.compile(r"^  %(\d+) = param \w+\[(\d+)\]$", re.MULTILINE)
_WINDOW = re.compile(
    r"^  %(\d+) = ftm\.view\(base=%(\d+), sizes=\[([\d,]+)\], strides=\[([\d,]+)\], offset=0\)",
    re.MULTILINE,
)
_CAT = re.compile(r"aten::cat\(tensors=\[%(\d+),[^\]]*\], dim=(-?\d+)\)")
_NUMBER = re.compile(r"\d+")


class CacheWindow(NamedTuple):
    """A parameter that is what such a window sees, from its first element to its last; places are
    where a number begins and ends.

    rows: where the window says how many there are. whole: where it says how many elements the rows
    were before. outer: where it says how many elements there are to the next along dimensions
    before that, in such wholes. extent: where the parameter's extent is, which is ``wholes`` such
    wholes and ``width`` elements for each row. grows: new rows are put behind it.
    """

    rows: tuple[int, int]
    whole: tuple[int, int]
    outer: tuple[tuple[tuple[int, int], int], ...]
    extent: tuple[int, int]
    wholes: int
    width: int
    grows: bool


class TransposedWindow(NamedTuple):
    """A parameter that is what such a window sees, from its first element to its last; places are
    where a number begins and ends.

    rows: where the window says how many there are. outer: where it says how many elements there are
    to the next along dimensions outside of the rows, and how many times a row that is for each.
    extent: where the parameter's extent is, which is ``each`` for each row and ``rest``.
    """

    rows: tuple[int, int]
    outer: tuple[tuple[tuple[int, int], int], ...]
    extent: tuple[int, int]
    each: int
    rest: int


def turned(text: str) -> Iterator[TransposedWindow]:
    """Of the parameters of a trace those that are windows whose rows are behind what lies inside of
    them."""
    extents = {found[1]: found.span(2) for found in _ROW.finditer(text)}
    for view in _WINDOW.finditer(text) if extents else ():
        if view[2] in extents:
            sizes, strides = (
                [number.span() for number in _NUMBER.finditer(text, *view.span(part))]
                for part in (3, 4)
            )
            found = _turned(text, extents[view[2]], sizes, strides)
            if found is not None:
                yield found


def _turned(
    text: str, extent: tuple[int, int], sizes: list[tuple[int, int]], strides: list[tuple[int, int]]
) -> TransposedWindow | None:
    counts, steps = ([int(text[slice(*place)]) for place in places] for places in (sizes, strides))
    several = [d for d in range(len(counts)) if counts[d] > 1]
    behind = [d for d in several if any(e < d and steps[e] < steps[d] for e in several)]
    if not behind:
        return None
    rows = max(behind, key=steps.__getitem__)
    row, whole = steps[rows], counts[rows] * steps[rows]
    outside = [d for d in range(len(counts)) if steps[d] >= whole]
    inside = [d for d in several if d != rows and d not in outside]
    last = sum((counts[d] - 1) * steps[d] for d in inside)
    wholes = 1 + sum((counts[d] - 1) * (steps[d] // whole) for d in outside)
    is_window = all(steps[d] % whole == 0 for d in outside) and last < row
    if not is_window or int(text[slice(*extent)]) != wholes * whole - row + last + 1:
        return None
    outer = tuple((strides[d], steps[d] // counts[rows]) for d in outside)
    return TransposedWindow(sizes[rows], outer, extent, wholes * row, last + 1 - row)


def cropped(text: str) -> Iterator[CacheWindow]:
    """Of the parameters of a trace those that are windows without some rows."""
    extents = {found[1]: found.span(2) for found in _ROW.finditer(text)}
    grown = {found[1]: int(found[2]) for found in _CAT.finditer(text)}
    for view in _WINDOW.finditer(text):
        if view[2] in extents:
            sizes, strides = (
                [number.span() for number in _NUMBER.finditer(text, *view.span(part))]
                for part in (3, 4)
            )
            rows = grown[view[1]] % len(sizes) if view[1] in grown else 0
            found = _cropped(text, extents[view[2]], sizes, strides, rows)
            if found is not None:
                yield found._replace(grows=view[1] in grown)


def _cropped(
    text: str,
    extent: tuple[int, int],
    sizes: list[tuple[int, int]],
    strides: list[tuple[int, int]],
    grown: int,
) -> CacheWindow | None:
    counts, steps = ([int(text[slice(*place)]) for place in places] for places in (sizes, strides))
    dense = [math.prod(counts[d + 1 :]) for d in range(len(counts))]
    before = max((d for d in range(len(counts)) if steps[d] != dense[d]), default=grown - 1)
    if before < 0 or before + 1 == len(counts):
        return None
    times = [math.prod(counts[d + 1 : before + 1]) for d in range(before + 1)]
    wholes = sum((count - 1) * time for count, time in zip(counts, times, strict=False))
    whole, rows = steps[before], before + 1
    is_window = whole >= dense[before] and steps[:rows] == [time * whole for time in times]
    if not is_window or not wholes or int(text[slice(*extent)]) != wholes * whole + dense[before]:
        return None
    outer = tuple(zip(strides[:before], times[:before], strict=True))
    return CacheWindow(
        sizes[rows], strides[before], outer, extent, wholes, dense[rows], grows=False
    )
