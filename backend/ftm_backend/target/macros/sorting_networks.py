"""Expansions of SORT and MERGE: bitonic networks of compares, predicated moves and shuffles."""

from __future__ import annotations

import operator

import numpy as np

from ftm_backend.target.macros.macro_simulator import MacroSimulator, UnitVector

_MOST = np.iinfo(np.int64).max


def padded(count: int, lanes: int) -> int:
    """Return the power of two, at least one vector, that ``count`` elements are padded to."""
    return max(lanes, 1 << (max(count, 1) - 1).bit_length())


def sort(u: MacroSimulator, x: np.ndarray, y: np.ndarray) -> None:
    """Sort the k least elements of each row of x (R x n, int64) ascending into y (R x k).

    For k < n, blocks of k elements are sorted alternately up and down. The elementwise minima of
    two neighbors form a bitonic block, which one merge sorts; this repeats until one block is left.
    """
    rows, columns = x.shape
    kept = y.shape[1]
    if rows == 0 or kept == 0:
        return
    block = padded(kept, u.lanes)
    size = max(block, padded(columns, u.lanes))
    work = np.full((rows, size), _MOST, np.int64)
    work[:, :columns] = x
    width = 2
    while width <= block:
        _merge_stages(u, work, width, block)
        width *= 2
    while work.shape[1] > block:
        work = _minima(u, work, block)
        _merge_stages(u, work, block, block)
    y[...] = work[:, :kept]


def merge(u: MacroSimulator, a: np.ndarray, b: np.ndarray, y: np.ndarray) -> None:
    """Merge sorted rows of a and b into rows of y.

    b is reversed behind a, which gives a bitonic sequence for the last stages of the network.
    """
    rows, size = a.shape[0], padded(y.shape[1], u.lanes)
    if rows == 0 or y.shape[1] == 0:
        return
    work = np.full((rows, size), _MOST, np.int64)
    work[:, : a.shape[1]] = a
    turned = b[:, ::-1].copy()
    work[:, size - b.shape[1] :] = turned
    for _ in u.loop(rows * -(-b.shape[1] // u.lanes)):
        u.store(u.shuffle(u.numbers[::-1], u.load(turned[0], 0)), turned[0].copy(), 0)
    _merge_stages(u, work, size, size)
    y[...] = work[:, : y.shape[1]]


def _merge_stages(u: MacroSimulator, work: np.ndarray, width: int, block: int) -> None:
    """Sort bitonic runs of ``width``, alternately up and down; see `sort` for ``block``."""
    rows, size = work.shape
    distance = width // 2
    while distance >= u.lanes:
        pairs = size // (2 * u.lanes)
        for number in u.loop(rows * pairs):
            row, pair = work[number // pairs], number % pairs
            per_run = distance // u.lanes
            low = (pair // per_run) * 2 * distance + (pair % per_run) * u.lanes
            _exchange(u, row, low, low + distance, bool(low & width) and width < size)
        distance //= 2
    vectors = size // u.lanes
    for number in u.loop(rows * vectors):
        row, at = work[number // vectors], number % vectors * u.lanes
        v = u.load(row, at)
        step = distance
        while step:
            down = ((at + u.numbers) & width != 0) & (width < size)
            partner = u.shuffle(u.numbers ^ step, v)
            less = u.compare(operator.lt, v, partner)
            smaller, larger = u.select(less, v, partner), u.select(less, partner, v)
            v = u.select(u.constant(((u.numbers & step) != 0) ^ down), larger, smaller)
            step //= 2
        u.store(v, row, at)


def _exchange(u: MacroSimulator, row: np.ndarray, low: int, high: int, down: bool) -> None:
    a, b = u.load(row, low), u.load(row, high)
    if down:
        a, b = b, a
    less = u.compare(operator.lt, b, a)
    smaller, larger = u.select(less, b, a), u.select(less, a, b)
    results: tuple[UnitVector, UnitVector] = (larger, smaller) if down else (smaller, larger)
    u.store(results[0], row, low)
    u.store(results[1], row, high)


def _minima(u: MacroSimulator, work: np.ndarray, block: int) -> np.ndarray:
    """Return the elementwise minima of each pair of blocks, one sorted up and one down."""
    rows, size = work.shape
    result = np.empty((rows, size // 2), np.int64)
    vectors = block // u.lanes
    for number in u.loop(rows * (size // (2 * block)) * vectors):
        row, rest = divmod(number, size // (2 * block) * vectors)
        pair, part = divmod(rest, vectors)
        low = pair * 2 * block + part * u.lanes
        a, b = u.load(work[row], low), u.load(work[row], low + block)
        u.store(
            u.select(u.compare(operator.lt, b, a), b, a), result[row], pair * block + part * u.lanes
        )
    return result
