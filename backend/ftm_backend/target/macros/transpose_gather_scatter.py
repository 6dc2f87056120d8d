"""Expansions of TRANS, DLB, DSC with arithmetic, and VGA.

The last three need the core because the DMA engines only copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftm_backend.target.macros.macro_simulator import MacroSimulator, UnitVector
from ftm_backend.target.macros.scan import combine

HELD = 5
"""Rounds of exchanges done in registers, between 2 ** HELD vectors."""


def transpose(u: MacroSimulator, x: np.ndarray, y: np.ndarray) -> None:
    """Transpose blocks of ``lanes`` rows: rows at distance 1, 2, 4, ... exchange half their lanes.

    Blocks with more rows than fit into registers go through the scratchpad once more; distant rows
    exchange first.
    """
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


def _exchange(
    u: MacroSimulator,
    sources: Sequence[np.ndarray],
    at: int,
    targets: Sequence[np.ndarray],
    to: int,
    spacing: int,
) -> None:
    """Execute all exchange rounds between rows that are ``spacing`` apart.

    Reads from column ``at`` of the sources and writes to column ``to`` of the targets.
    """
    group = [u.load(row, at) for row in sources]
    half = len(group) // 2
    while half:
        group = _swapped(u, group, half, half * spacing)
        half //= 2
    for v, row in zip(group, targets, strict=True):
        u.store(v, row, to)


def _swapped(
    u: MacroSimulator, group: Sequence[UnitVector], half: int, distance: int
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
    u: MacroSimulator,
    a: np.ndarray,
    places: np.ndarray,
    inside: Sequence[int],
    before: Sequence[int],
    whole: Sequence[int],
    y: np.ndarray,
) -> None:
    """DLB of the elements ``places`` of a buffer that is seen with zero padding.

    DMA alone does it with two sources: elements inside come from the buffer, padding from a single
    zero with stride 0. Pieces of two dimensions form a chain of transfers that overlap, so every
    element costs the same.

    Args:
        u: Unused.
        a: The buffer.
        places: Flat indices into the padded buffer.
        inside: Extents of the innermost dimensions of the buffer.
        before: Padding before each of them.
        whole: Their padded extents.
        y: The result.
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
    u: MacroSimulator, operation: str, x: np.ndarray, a: np.ndarray, places: np.ndarray
) -> None:
    """DSC with arithmetic: combine rows ``x`` with elements ``places`` of ``a`` (both R x C).

    A row is loaded, combined and stored before the next one, which may be the same row.
    """
    rows, columns = x.shape
    for row in u.loop(rows):
        old = a[places[row]]
        for number in u.loop(-(-columns // u.lanes)):
            at = number * u.lanes
            u.store(combine(u, operation, u.load(old, at), u.load(x[row], at)), old, at)
        a[places[row]] = old


def gather(u: MacroSimulator, a: np.ndarray, index: np.ndarray, d: np.ndarray) -> None:
    """VGA of R x C elements.

    The first part of the map stores the indices to a tile, DMA gathers single elements (``DGA``),
    and the second part loads them. The core's share is two vector memory operations.
    """
    wanted = np.empty_like(index)
    for row in u.loop(index.shape[0]):
        for number in u.loop(-(-index.shape[1] // u.lanes)):
            u.store(u.load(index[row], number * u.lanes), wanted[row], number * u.lanes)
    d[...] = 0 if u.dry else a[wanted]
