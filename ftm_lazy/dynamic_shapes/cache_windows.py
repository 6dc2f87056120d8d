"""Analysis: views of parameters (KV caches) whose number of rows varies.

A *cropped* window omits the last rows of a cache, e.g. rejected candidates of speculative decoding.
Its numbers depend on two sizes: the rows that remain, and the rows that the memory has. A window
that the trace appends new rows to also counts as cropped, since the next one may be.

A *turned* (transposed) window has a dimension before its rows that is contiguous within a row, e.g.
heads [heads, rows, width] in memory of shape [rows, heads, width].

All functions search the trace's text with regular expressions. A *place* is the (begin, end) of a
number in the text.
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
    """A parameter that is read through a cropped window; it ends at the window's last element.

    Attributes:
        rows: Place of the number of rows.
        whole: Place of the stride of the uncropped rows, in elements.
        outer: For each outer dimension the place of its stride, and the stride in units of `whole`.
        extent: Place of the parameter's extent: ``wholes * whole + width * rows``.
        wholes: See `extent`.
        width: Elements of a row.
        grows: Whether the trace appends rows to it.
    """

    rows: tuple[int, int]
    whole: tuple[int, int]
    outer: tuple[tuple[tuple[int, int], int], ...]
    extent: tuple[int, int]
    wholes: int
    width: int
    grows: bool


class TransposedWindow(NamedTuple):
    """A parameter that is read through a transposed window; it ends at the window's last element.

    Attributes:
        rows: Place of the number of rows.
        outer: For each outer dimension the place of its stride, and the stride per row.
        extent: Place of the parameter's extent: ``each * rows + rest``.
        each: See `extent`.
        rest: See `extent`.
    """

    rows: tuple[int, int]
    outer: tuple[tuple[tuple[int, int], int], ...]
    extent: tuple[int, int]
    each: int
    rest: int


def turned(text: str) -> Iterator[TransposedWindow]:
    """Yield the parameters of a trace that are read through transposed windows."""
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
    """Yield the parameters of a trace that are read through cropped windows."""
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
