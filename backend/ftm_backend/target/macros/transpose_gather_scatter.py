"""TRANS; loads with a border; and what DMA engines that only copy need the core for: scatters with
arithmetic, gathers in maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftm_backend.target.macros.scan import combine
from ftm_backend.target.macros.vector_unit import UnitVector, VectorUnit

HELD = 5
"""Rounds of exchanges that are done in registers, between 2 ** HELD vectors."""


def transpose(u: VectorUnit, x: np.ndarray, y: np.ndarray, zipped: bool = False) -> None:
    """Blocks of as many rows as a vector has lanes: neighbours at distance 1, 2, 4, ... swap halves
    of their lanes.

    Blocks of more rows than registers hold go through the scratchpad once more: first rows far
    apart exchange theirs. zipped: the halves of x are transposed, and then vectors of both
    interleaved.
    """
    if zipped:
        halves = np.split(x, 2, axis=1)
        turned = [np.empty(half.shape[::-1], half.dtype) for half in halves]
        for half, to in zip(halves, turned, strict=True):
            transpose(u, half, to)
        _interleave(u, turned[0], turned[1], y)
        return
    rows, columns = x.shape
    down, right = -(-rows // u.lanes), -(-columns // u.lanes)
    near = min(u.lanes, 1 << HELD)
    for block in u.loop(down * right):
        top, left = block // right * u.lanes, block % right * u.lanes
        rows_of_x, rows_of_y = (
            [_line(m, first + i) for i in range(u.lanes)] for m, first in ((x, top), (y, left))
        )
        if near == u.lanes:
            _exchange(u, rows_of_x, left, rows_of_y, top, 1)
            continue
        between = list(np.empty((u.lanes, u.lanes), x.dtype))
        for first in u.loop(near):
            _exchange(u, rows_of_x[first::near], left, between[first::near], 0, near)
        for part in u.loop(u.lanes // near):
            lines = slice(part * near, (part + 1) * near)
            _exchange(u, between[lines], 0, rows_of_y[lines], top, 1)


def _interleave(u: VectorUnit, a: np.ndarray, b: np.ndarray, y: np.ndarray) -> None:
    rows, columns = a.shape
    pieces = -(-columns // u.lanes)
    places = u.numbers // 2 + u.lanes * (u.numbers % 2)
    for block in u.loop(rows * pieces):
        row, at = block // pieces, block % pieces * u.lanes
        left, right = u.load(a[row], at), u.load(b[row], at)
        for number in (0, 1):
            u.store(
                u.shuffle(places + number * (u.lanes // 2), left, right),
                y[row],
                2 * at + number * u.lanes,
            )


def _exchange(
    u: VectorUnit,
    sources: Sequence[np.ndarray],
    at: int,
    targets: Sequence[np.ndarray],
    to: int,
    spacing: int,
) -> None:
    """All rounds between rows that lie ``spacing`` apart: from element ``at`` of the sources to
    element ``to`` of the targets."""
    group = [u.load(row, at) for row in sources]
    half = len(group) // 2
    while half:
        group = _swapped(u, group, half, half * spacing)
        half //= 2
    for v, row in zip(group, targets, strict=True):
        u.store(v, row, to)


def _swapped(
    u: VectorUnit, group: Sequence[UnitVector], half: int, distance: int
) -> list[UnitVector]:
    result = list(group)
    low = (u.numbers & distance) == 0
    for i in range(len(group)):
        if not i & half:
            a, b = group[i], group[i + half]
            result[i] = u.shuffle(np.where(low, u.numbers, u.lanes + u.numbers - distance), a, b)
            result[i + half] = u.shuffle(
                np.where(low, u.numbers + distance, u.lanes + u.numbers), a, b
            )
    return result


def _line(matrix: np.ndarray, i: int) -> np.ndarray:
    return matrix[i] if i < matrix.shape[0] else np.zeros(matrix.shape[1], matrix.dtype)


def load_bordered(
    u: VectorUnit,
    a: np.ndarray,
    places: np.ndarray,
    inside: Sequence[int],
    before: Sequence[int],
    whole: Sequence[int],
    y: np.ndarray,
) -> None:
    """DLB, of the elements that ``places`` number in a buffer seen with its border: of the last
    dimensions ``inside`` are in memory, ``before`` lie ahead of them and ``whole`` are all.

    DMA alone does it, from two sources: what lies inside it takes from the buffer, the rest from
    one zero, by steps of 0. Pieces of two dimensions each are a chain of transfers, in which the
    next is fetched while one moves; so all elements take the same time.
    """
    source, within, rest, stride = np.zeros_like(places), np.full(places.shape, True), places, 1
    for count, first, extent in zip(
        reversed(inside), reversed(before), reversed(whole), strict=True
    ):
        x, rest = rest % extent - first, rest // extent
        within &= (x >= 0) & (x < count)
        source += x * stride
        stride *= count
    source += rest * stride
    y[within] = a[source[within]]
    y[~within] = 0


def store_combined(
    u: VectorUnit, operation: str, x: np.ndarray, a: np.ndarray, places: np.ndarray
) -> None:
    """DSC with arithmetic, of rows ``x`` to elements ``places`` of ``a`` (both R x C): a row is
    fetched, combined and stored before the next one, which may be the same."""
    rows, columns = x.shape
    for row in u.loop(rows):
        old = a[places[row]]
        for number in u.loop(-(-columns // u.lanes)):
            at = number * u.lanes
            u.store(combine(u, operation, u.load(old, at), u.load(x[row], at)), old, at)
        a[places[row]] = old


def gather(u: VectorUnit, a: np.ndarray, index: np.ndarray, d: np.ndarray) -> None:
    """VGA, of an element in each of R x C places: the part of the map before it stores their
    indices in a tile, DMA gathers single elements by them (``DGA``), and the part after it loads
    what came. What the core does is two vector memory operations."""
    wanted = np.empty_like(index)
    for row in u.loop(index.shape[0]):
        for number in u.loop(-(-index.shape[1] // u.lanes)):
            u.store(u.load(index[row], number * u.lanes), wanted[row], number * u.lanes)
    d[...] = 0 if u.dry else a[wanted]
