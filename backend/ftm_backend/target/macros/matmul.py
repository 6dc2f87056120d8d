"""Expansions of matrix products: outer products, dot products and cross-lane sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ftm_backend.target.macros.macro_simulator import MacroSimulator, UnitVector

DOT_COLUMNS = 8
"""Columns of C in the dot-product micro-kernel: 6 rows x 8 columns = 48 sums, one vector each."""


def product(
    u: MacroSimulator, a: np.ndarray, b: np.ndarray, c: np.ndarray, transposed: bool
) -> None:
    """MM.ACC. A is M x K; B is K x N or, if ``transposed``, N x K.

    ``.TA`` only changes the addresses of A, and without ``.ACC`` C starts as 0: neither costs time.
    """
    (dot_products if transposed else outer_products)(u, a, b, c)


def outer_products(u: MacroSimulator, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """Add a (M x K) times b (K x N) to c (M x N)."""
    share = u.machine.mm_broadcast_cycles(u.dtype)
    _outer(u, a.shape[0], lambda i, k: u.load_scalar(_row(a, i), k, share), 1, b, c)


def windows(
    u: MacroSimulator, a: np.ndarray, offsets: np.ndarray, runs: int, b: np.ndarray, c: np.ndarray
) -> None:
    """MMW.ACC: `outer_products` whose element (i, k) of A is ``a[offsets[i, k]]``.

    k is split into ``runs`` loops in which addresses advance by a fixed step. Neighboring windows
    share elements, which are loaded once.
    """
    share, last = u.machine.mm_broadcast_cycles(u.dtype), offsets.shape[1] - 1
    _outer(
        u,
        offsets.shape[0],
        lambda i, k: u.load_scalar(a, int(_row(offsets, i)[min(k, last)]), share),
        runs,
        b,
        c,
    )


def _outer(
    u: MacroSimulator,
    m: int,
    element_of_a: Callable[[int, int], UnitVector],
    runs: int,
    b: np.ndarray,
    c: np.ndarray,
) -> None:
    """Keep a block of C in registers; for each k load a row of B and broadcast elements of A.

    Blocks of two widths cover the columns, narrow ones first, and a thin one last. The sums of a
    thin one would be needed before they are ready, so it executes two steps of k at once, into
    separate sums.
    """
    rows, first, share = u.machine.mm_rows, 0, u.machine.mm_broadcast_cycles(u.dtype)
    k, n = b.shape
    for vectors, count, at_once in _widths(u, n):
        turns = [list(range(k))[at : at + at_once] for at in range(0, k, at_once)]
        each = -(-k // runs)
        turns += [[]] * (runs * -(-each // at_once) - len(turns))  # runs that end within a turn
        for block in u.loop(-(-m // rows) * count):
            top, left = (block // count) * rows, first + (block % count) * vectors * u.lanes
            places = [
                (i, left + j * u.lanes) for i in range(top, top + rows) for j in range(vectors)
            ]
            sums = [[_load(u, c, i, j) for i, j in places]]
            sums += [[u.constant(c.dtype.type(0)) for _ in places] for _ in range(at_once - 1)]
            for turn in u.loop(len(turns)):
                for number in range(at_once):
                    step = turns[turn][number] if number < len(turns[turn]) else k
                    parts = [u.load(_row(b, step), left + j * u.lanes) for j in range(vectors)]
                    wide = [
                        u.broadcast(element_of_a(i, step), share) for i in range(top, top + rows)
                    ]
                    sums[number] = [
                        u.fma(wide[at // vectors], parts[at % vectors], total)
                        for at, total in enumerate(sums[number])
                    ]
            u.branches(runs - 1)
            totals = sums[0]
            for _ in u.loop(at_once - 1):
                totals = [u.add(*two) for two in zip(*sums, strict=True)]
            for (i, j), total in zip(places, totals, strict=True):
                _store(u, total, c, i, j)
        first += count * vectors * u.lanes


def _widths(u: MacroSimulator, n: int) -> list[tuple[int, int, int]]:
    """Return for each kind of block: vectors per row, number of blocks, steps of k at once."""
    vectors, narrow = -(-n // u.lanes), u.machine.mm_vectors
    wide = narrow + bool(u.machine.mm_wide_overhead)
    calls = -(-vectors // wide)
    spare = min(calls * wide - vectors, calls) if wide > narrow else calls
    empty = spare * narrow + (calls - spare) * wide - vectors
    if not empty or not u.machine.mm_thin(u.dtype):
        return [(narrow, spare, 1), (wide, calls - spare, 1)]
    return [(narrow, spare - 1, 1), (narrow - empty, 1, 2)]


def dot_products(u: MacroSimulator, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """Add a (M x K) times b (N x K) to c (M x N): vectors along K, then cross-lane sums."""
    machine = u.machine
    (m, k), n = a.shape, b.shape[0]
    rows = machine.mm_rows
    for block in u.loop(-(-m // rows) * -(-n // DOT_COLUMNS)):
        top, left = (
            (block // -(-n // DOT_COLUMNS)) * rows,
            (block % -(-n // DOT_COLUMNS)) * DOT_COLUMNS,
        )
        sums = [u.constant(c.dtype.type(0)) for _ in range(rows * DOT_COLUMNS)]
        for step in u.loop(-(-k // u.lanes)):
            of_a = [_load(u, a, i, step * u.lanes) for i in range(top, top + rows)]
            of_b = [_load(u, b, j, step * u.lanes) for j in range(left, left + DOT_COLUMNS)]
            sums = [
                u.fma(of_a[number // DOT_COLUMNS], of_b[number % DOT_COLUMNS], total)
                for number, total in enumerate(sums)
            ]
        for _ in u.loop(1):
            results = across(u, sums)
            for number, total in enumerate(np.concatenate([v.value for v in results])[: len(sums)]):
                i, j = top + number // DOT_COLUMNS, left + number % DOT_COLUMNS
                if i < m and j < n:
                    c[i, j] += total
            for v in results:
                u.store(v, np.empty(u.lanes, c.dtype), 0)


def across(u: MacroSimulator, vectors: list[UnitVector]) -> list[UnitVector]:
    """Sum each vector across its lanes; the sums fill the lanes of the results.

    The halves of two vectors are added into one vector, and so on (a butterfly).
    """
    results = []
    for first in range(0, len(vectors), u.lanes):
        group = vectors[first : first + u.lanes]
        half = u.lanes // 2
        while half:
            merged = []
            for number in range(min(half, len(group))):
                a = group[number]
                b = group[number + half] if number + half < len(group) else a
                low = (u.numbers & half) == 0
                near = u.shuffle(np.where(low, u.numbers, u.lanes + u.numbers - half), a, b)
                far = u.shuffle(np.where(low, u.numbers + half, u.lanes + u.numbers), a, b)
                merged.append(u.add(near, far))
            group = merged
            half //= 2
        results += group
    return results


def _row(matrix: np.ndarray, i: int) -> np.ndarray:
    """Return row i, or zeros beyond the last row."""
    return matrix[i] if i < matrix.shape[0] else np.zeros(matrix.shape[1], matrix.dtype)


def _load(u: MacroSimulator, matrix: np.ndarray, i: int, j: int) -> UnitVector:
    return u.load(_row(matrix, i), j)


def _store(u: MacroSimulator, v: UnitVector, matrix: np.ndarray, i: int, j: int) -> None:
    u.store(v, _row(matrix, i), j)
