"""Canonicalization of traces that compute the same, so that they belong to one family.

Example: new rows are concatenated to a KV cache. The trace reads an uncropped cache directly, but a
cropped one through a window (`ftm_lazy.dynamic_shapes.cache_windows`). The canonical form has a
window in both cases; without cropping, both row counts are equal. The window's parameter is
declared one-dimensional. The image is the same, because the memory is.

A cache with one row is not changed before it is compiled: the distance to a next row cannot be
derived from it. But a program for several rows may serve it.

Windows with transposed rows and columns, e.g. parts of a fused QKV projection, read other elements.
`window_orders` distinguishes them.

The recorder does not canonicalize; this happens only for traces without a program in memory.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["normal_form", "normal_varies", "window_orders"]

_PARAMETER = re.compile(r"  %(\d+) = param (\w+)\[1,([\d,]+)\]$", re.MULTILINE)
_CAT = re.compile(r"aten::cat\(tensors=\[%(\d+),(%\d+(?:,%\d+)*)\], dim=(-?\d+)\)")
_ROW = re.compile(r"^  %(\d+) = param \w+\[\d+\]$", re.MULTILINE)
_VIEW = re.compile(r"  (%\d+) = ftm\.view\(")
_VALUE = re.compile(r"%(\d+)")
_WINDOW = re.compile(r"ftm\.view\(base=%(\d+), sizes=\[([\d,]+)\], strides=\[([\d,]+)\]")
_BEHIND_USES = ",])\n"


class _Window(NamedTuple):
    """A window to insert: position in the text, parameter, sizes, and number of rows."""

    place: int
    parameter: re.Match[str]
    sizes: list[int]
    rows: int


def normal_form(text: str, one_row: bool = False) -> str:
    """Replace caches in concatenations by windows.

    A cache is the first operand of a concatenation, if it is a parameter with batch size 1 that
    nothing else reads.

    Args:
        text: The trace.
        one_row: Also replace caches of one row; otherwise one of them leaves the trace unchanged.
    """
    windows = []
    at = text.find("aten::cat(tensors=[%")
    while at >= 0:
        cat = _CAT.match(text, at)
        window = _window_of(text, cat) if cat is not None else None
        if window is not None and window.rows == 1 and not one_row:
            return text
        if window is not None:
            windows.append(window)
        at = text.find("aten::cat(tensors=[%", at + 1)
    return _written(text, windows) if windows else text


def _window_of(text: str, cat: re.Match[str]) -> _Window | None:
    declared = text.find(f"  %{cat[1]} = param ", 0, cat.start())
    parameter = _PARAMETER.match(text, declared) if declared >= 0 else None
    if parameter is None or sum(text.count(f"%{cat[1]}{behind}") for behind in _BEHIND_USES) != 1:
        return None
    sizes = [1, *map(int, parameter[3].split(","))]
    dim = int(cat[3]) % len(sizes)
    if math.prod(sizes[:dim]) == 1:  # the concatenation appends memory, so no window is needed
        return None
    place = _place(text, cat)
    behind = {
        int(value) for value in _VALUE.findall(text, place, cat.start()) if int(value) < int(cat[1])
    }
    # parameters are numbered in the order of first use
    if any(not _is_read(text, value, place) for value in behind):
        return None
    return _Window(place, parameter, sizes, sizes[dim])


def _is_read(text: str, value: int, end: int) -> bool:
    """Return whether an operation before position `end` reads a parameter."""
    return any(f"%{value}{behind}" in text[:end] for behind in _BEHIND_USES)


def normal_varies(text: str, varies: Sequence[int]) -> Sequence[int]:
    """Convert the bit masks of varying dimensions to the canonical form.

    Args:
        text: The canonical trace.
        varies: For each parameter the bit mask of its dimensions in the original trace.
    """
    if not varies:
        return varies
    found = list(varies)
    for row in _ROW.finditer(text):
        found[int(row[1])] = 1 if varies[int(row[1])] else 0
    return found


def window_orders(text: str) -> str:
    """Describe the transposed windows of one-dimensional parameters: number and dimension order.

    The text is part of the family's key.
    """
    parameters = text.rfind(" = param ")
    rows = {
        row[1]
        for row in _ROW.finditer(text, 0, text.find("\n", parameters) if parameters >= 0 else 0)
    }
    told = []
    for number, window in enumerate(_WINDOW.finditer(text) if rows else ()):
        if window[1] in rows:
            sizes, strides = (list(map(int, part.split(","))) for part in window.group(2, 3))
            several = [d for d, size in enumerate(sizes) if size > 1 and strides[d]]
            order = sorted(several, key=lambda d: -strides[d])
            if order != several:
                told.append(f"{number}:{','.join(map(str, order))}")
    return " ".join(told)


def _place(text: str, cat: re.Match[str]) -> int:
    """Return the position of the first operand's window: before the windows of the others."""
    others = set(cat[2].split(","))
    begin = text.rfind("\n", 0, cat.start()) + 1
    while True:
        before = text.rfind("\n", 0, begin - 1) + 1
        view = _VIEW.match(text, before)
        if view is None or view[1] not in others:
            return begin
        begin = before


def _written(text: str, windows: Sequence[_Window]) -> str:
    """Return the text with these windows and renumbered values."""
    begins = [window.place for window in windows]
    firsts = [int(_VALUE.search(text, begin)[1]) for begin in begins]  # type: ignore[index]
    head = text[: begins[0]]
    for _, parameter, sizes, _ in windows:
        head = head.replace(
            parameter[0], f"  %{parameter[1]} = param {parameter[2]}[{math.prod(sizes)}]", 1
        )
    pieces, anew = [head], dict[str, str]()
    for k, (begin, end) in enumerate(zip(begins, [*begins[1:], len(text)], strict=True)):
        number = firsts[k] + k
        # only the concatenation reads the parameter
        anew[windows[k].parameter[1]] = f"%{number}"
        parts = _VALUE.split(text[begin:end])
        for value in set(parts[1::2]) - anew.keys():
            anew[value] = f"%{int(value) + bisect_right(firsts, int(value))}"
        parts[1::2] = [anew[value] for value in parts[1::2]]
        pieces += [_line(windows[k], number), *parts]
    return "".join(pieces)


def _line(window: _Window, number: int) -> str:
    _, parameter, sizes, _ = window
    strides = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    extents, steps = (",".join(map(str, each)) for each in (sizes, strides))
    view = f"ftm.view(base=%{parameter[1]}, sizes=[{extents}], strides=[{steps}], offset=0)"
    return f"  %{number} = {view} : {parameter[2]}[{extents}]\n"
