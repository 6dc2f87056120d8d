"""TRANS, and what DMA engines that only copy need the core for: stores and scatters with arithmetic, gathers in maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftm_backend.instructions.expansions.rows import combine
from ftm_backend.instructions.expansions.unit import Unit, Vector


def transpose(u: Unit, x: np.ndarray, y: np.ndarray) -> None:
    """Blocks of as many rows as a vector has lanes: neighbours at distance 1, 2, 4, ... swap halves of their lanes."""
    rows, columns = x.shape
    down, right = -(-rows // u.lanes), -(-columns // u.lanes)
    for block in u.loop(down * right):
        top, left = block // right * u.lanes, block % right * u.lanes
        group = [u.load(_line(x, top + i), left) for i in range(u.lanes)]
        half = u.lanes // 2
        while half:
            group = _swapped(u, group, half)
            half //= 2
        for i, v in enumerate(group):
            u.store(v, _line(y, left + i), top)


def _swapped(u: Unit, group: Sequence[Vector], half: int) -> list[Vector]:
    result = list(group)
    low = (u.numbers & half) == 0
    for i in range(u.lanes):
        if not i & half:
            a, b = group[i], group[i + half]
            result[i] = u.shuffle(np.where(low, u.numbers, u.lanes + u.numbers - half), a, b)
            result[i + half] = u.shuffle(np.where(low, u.numbers + half, u.lanes + u.numbers), a, b)
    return result


def _line(matrix: np.ndarray, i: int) -> np.ndarray:
    return matrix[i] if i < matrix.shape[0] else np.zeros(matrix.shape[1], matrix.dtype)


def store_combined(u: Unit, operation: str, x: np.ndarray, a: np.ndarray, places: np.ndarray) -> None:
    """DST and DSC with arithmetic, of rows ``x`` to elements ``places`` of ``a`` (both R x C): a row is fetched, combined and
    stored before the next one, which may be the same; ``DST.ADD`` is one such row."""
    rows, columns = x.shape
    for row in u.loop(rows):
        old = a[places[row]]
        for number in u.loop(-(-columns // u.lanes)):
            at = number * u.lanes
            u.store(combine(u, operation, u.load(old, at), u.load(x[row], at)), old, at)
        a[places[row]] = old


def gather(u: Unit, a: np.ndarray, index: np.ndarray, d: np.ndarray) -> None:
    """VGA, of an element in each of R x C places: the part of the map before it stores their indices in a tile, DMA gathers single
    elements by them (``DGA``), and the part after it loads what came.  What the core does is two vector memory operations."""
    wanted = np.empty_like(index)
    for row in u.loop(index.shape[0]):
        for number in u.loop(-(-index.shape[1] // u.lanes)):
            u.store(u.load(index[row], number * u.lanes), wanted[row], number * u.lanes)
    d[...] = 0 if u.dry else a[wanted]
