"""One spelling for traces that say the same, so that they are one family.

A cache of keys is put together with new rows. Where nothing was cropped the trace reads it as it
is, else through a window (`ftm_lazy.dynamic_shapes.cache_windows`). Both are windows here, whose
rows that are left and whose rows that there were may be as many. The parameter of a window is a row
of as many elements: the image takes the same memory.

A cache of one row tells nothing of others: how many elements there are to the next row is, then, as
many as a row has. So it stays as it is where a program is made of it, but one that was made for
several rows may serve it.

Windows whose rows and columns changed places, as the parts of one product of a layer are, read
other elements than caches do: they are told apart.

The recorder knows nothing of it: this happens where a trace has no program in memory.
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
    """One to be written: where in the text, of which parameter, its sizes, and how many rows there
    are."""

    place: int
    parameter: re.Match[str]
    sizes: list[int]
    rows: int


def normal_form(text: str, one_row: bool = False) -> str:
    """Return a trace whose first operands of concatenations are windows, if they are parameters of one
    batch that nothing else reads.

    The trace itself where one of them has one row, unless ``one_row``.
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
    if math.prod(sizes[:dim]) == 1:  # what is put together lies in a row
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
    """Return whether something reads a parameter before a place in the text."""
    return any(f"%{value}{behind}" in text[:end] for behind in _BEHIND_USES)


def normal_varies(text: str, varies: Sequence[int]) -> Sequence[int]:
    """Which dimensions of each parameter are likely to vary, in the normal form: one bit each."""
    if not varies:
        return varies
    found = list(varies)
    for row in _ROW.finditer(text):
        found[int(row[1])] = 1 if varies[int(row[1])] else 0
    return found


def window_orders(text: str) -> str:
    """Of the windows of rows of elements those whose dimensions do not lie in their order: which of
    them, and how they lie."""
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
    """Where a window of the first operand would have been recorded: before those of the others."""
    others = set(cat[2].split(","))
    begin = text.rfind("\n", 0, cat.start()) + 1
    while True:
        before = text.rfind("\n", 0, begin - 1) + 1
        view = _VIEW.match(text, before)
        if view is None or view[1] not in others:
            return begin
        begin = before


def _written(text: str, windows: Sequence[_Window]) -> str:
    """Return the text with these windows, and with its values numbered anew."""
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
        # which the concatenation reads, and nothing else
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
    return f"  %{number} = ftm.view(base=%{parameter[1]}, sizes=[{extents}], strides=[{steps}], offset=0) : {parameter[2]}[{extents}]\n"
