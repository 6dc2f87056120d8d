"""Analysis: views of parameters (KV caches) whose number of rows varies.

A *cropped* window omits the last rows of a cache, e.g. rejected candidates of speculative decoding.
Its numbers depend on two sizes: the rows that remain, and the rows that the memory has. A window
that the trace appends new rows to also counts as cropped, since the next one may be.

A *transposed* window has a dimension before its rows that is contiguous within a row, e.g. heads
[heads, rows, width] in memory of shape [rows, heads, width].

A *place* is the index of a number in a trace (`ftm_backend.ir.trace.shape_family`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ftm_backend.ir.trace.shape_family import NumberPlaces
from ftm_backend.ir.trace.trace import Operand, Trace

__all__ = ["CacheWindow", "TransposedWindow", "appended_dims", "cropped", "transposed"]


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

    rows: int
    whole: int
    outer: tuple[tuple[int, int], ...]
    extent: int
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

    rows: int
    outer: tuple[tuple[int, int], ...]
    extent: int
    each: int
    rest: int


class _View(NamedTuple):
    """A view at offset 0 of a one-dimensional parameter, with the places of its numbers."""

    value: int
    extent: int
    sizes: Sequence[int]
    strides: Sequence[int]
    extent_place: int
    size_places: range
    stride_places: range


def _views(trace: Trace, places: NumberPlaces) -> Iterator[_View]:
    number = len(trace.params)
    for position, node in enumerate(trace.nodes):
        if node.op == "ftm.view" and node.operands[0] < len(trace.params):
            shape, sizes = trace.params[node.operands[0]].shape, node.argument("sizes")
            if len(shape) == 1 and sizes and node.argument("offset") == 0:
                yield _View(
                    number,
                    shape[0],
                    sizes,
                    node.argument("strides"),
                    places.params[node.operands[0]].start,
                    places.argument(position, "sizes"),
                    places.argument(position, "strides"),
                )
        number += len(node.results)


def transposed(trace: Trace, places: NumberPlaces) -> Iterator[TransposedWindow]:
    """Yield the parameters of a trace that are read through transposed windows."""
    for view in _views(trace, places):
        found = _transposed(view)
        if found is not None:
            yield found


def _transposed(view: _View) -> TransposedWindow | None:
    counts, steps = view.sizes, view.strides
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
    if not is_window or view.extent != wholes * whole - row + last + 1:
        return None
    outer = tuple((view.stride_places[d], steps[d] // counts[rows]) for d in outside)
    return TransposedWindow(
        view.size_places[rows], outer, view.extent_place, wholes * row, last + 1 - row
    )


def appended_dims(trace: Trace) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the operands of each concatenation of tensors, and its dimension as in the trace."""
    for node in trace.nodes:
        if node.op == "aten::cat":
            tensors = dict(node.spec.args)["tensors"]
            if all(tensor is Operand.VALUE for tensor in tensors):
                yield node.operands, node.argument("dim")


def cropped(trace: Trace, places: NumberPlaces) -> Iterator[CacheWindow]:
    """Yield the parameters of a trace that are read through cropped windows."""
    grown = {operands[0]: dim for operands, dim in appended_dims(trace)}
    for view in _views(trace, places):
        rows = grown[view.value] % len(view.sizes) if view.value in grown else 0
        found = _cropped(view, rows)
        if found is not None:
            yield found._replace(grows=view.value in grown)


def _cropped(view: _View, grown: int) -> CacheWindow | None:
    counts, steps = view.sizes, view.strides
    dense = [math.prod(counts[d + 1 :]) for d in range(len(counts))]
    before = max((d for d in range(len(counts)) if steps[d] != dense[d]), default=grown - 1)
    if before < 0 or before + 1 == len(counts):
        return None
    times = [math.prod(counts[d + 1 : before + 1]) for d in range(before + 1)]
    wholes = sum((count - 1) * time for count, time in zip(counts, times, strict=False))
    whole, rows = steps[before], before + 1
    is_window = whole >= dense[before] and list(steps[:rows]) == [time * whole for time in times]
    if not is_window or not wholes or view.extent != wholes * whole + dense[before]:
        return None
    strides = view.stride_places
    outer = tuple(zip(strides[:before], times[:before], strict=True))
    return CacheWindow(
        view.size_places[rows],
        strides[before],
        outer,
        view.extent_place,
        wholes,
        dense[rows],
        False,
    )
