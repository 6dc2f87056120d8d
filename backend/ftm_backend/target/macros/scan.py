"""Expansion of SCAN: log-step scan within vectors, then combination with the carry."""

from __future__ import annotations

import operator

import numpy as np

from ftm_backend.target.macros.macro_simulator import MacroSimulator, UnitVector

INTERLEAVED = 4
"""Independent rows (or vectors of columns) in flight, which hide each other's latency."""


def identity(operation: str, dtype: np.dtype) -> float | int:
    """Return the identity element of a combination."""
    least, most = (
        (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    )
    return {"ADD": 0, "MUL": 1, "MIN": most, "MAX": least, "LSE": least}[operation]


def combine(u: MacroSimulator, operation: str, a: UnitVector, x: UnitVector) -> UnitVector:
    """Return ``a (+) x``, where a comes first."""
    if operation == "ADD":
        return u.add(a, x)
    if operation == "MUL":
        return u.multiply(a, x)
    if operation == "LSE":
        return _log_add_exp(u, a, x)
    use_x = u.compare(operator.le if operation == "MIN" else operator.ge, x, a)
    if a.value.dtype.kind == "f":
        use_x = u.either(use_x, u.compare(operator.ne, x, x))
    return u.select(use_x, x, a)


def _log_add_exp(u: MacroSimulator, a: UnitVector, x: UnitVector) -> UnitVector:
    """Return larger + log1p(exp(smaller - larger)); equal infinities stay."""
    above = u.compare(operator.lt, x, a)
    high, low = u.select(above, a, x), u.select(above, x, a)
    more = u.macro("VLOG1P", np.log1p, u.macro("VEXP", np.exp, u.subtract(low, high)))
    # The difference of equal infinities is NaN.
    more = u.select(u.compare(operator.eq, low, high), u.constant(np.log(2.0)), more)
    return u.add(high, more)


def scan(
    u: MacroSimulator, operation: str, x: np.ndarray, carry: np.ndarray, y: np.ndarray, down: bool
) -> None:
    """Scan the rows of x into y, starting from ``carry`` and leaving the totals there.

    Args:
        u: Executes and times.
        operation: ``ADD``, ``MUL``, ``MIN``, ``MAX`` or ``LSE``.
        x: R x C.
        carry: R elements, or C if ``down``, of f64 or i64.
        y: R x C.
        down: Scan along columns instead of rows.
    """
    (_scan_down if down else _scan_along)(u, operation, x, carry, y)


def _scan_along(
    u: MacroSimulator, operation: str, x: np.ndarray, carry: np.ndarray, y: np.ndarray
) -> None:
    rows, columns = x.shape
    last = np.full(u.lanes, u.lanes - 1)
    for row in u.loop(rows):
        before = u.broadcast(u.load_scalar(carry, row))
        for number in u.loop(-(-columns // u.lanes), chain=_chain(u, operation, carry.dtype, rows)):
            at = number * u.lanes
            v = u.convert(u.load(x[row], at), carry.dtype)
            if at + u.lanes > columns:
                v.value[columns - at :] = identity(operation, carry.dtype)
            shift = 1
            while shift < u.lanes:
                empty = u.constant(carry.dtype.type(identity(operation, carry.dtype)))
                moved = u.shuffle(np.where(u.numbers < shift, u.lanes, u.numbers - shift), v, empty)
                v = combine(u, operation, moved, v)
                shift *= 2
            v = combine(u, operation, before, v)
            before = u.shuffle(last, v)
            u.store(u.convert(v, y.dtype), y[row], at)
        u.store(before, carry[row : row + 1], 0)


def _scan_down(
    u: MacroSimulator, operation: str, x: np.ndarray, carry: np.ndarray, y: np.ndarray
) -> None:
    rows, columns = x.shape
    vectors = -(-columns // u.lanes)
    for number in u.loop(vectors):
        at = number * u.lanes
        total = u.load(carry, at)
        for row in u.loop(rows, chain=_chain(u, operation, carry.dtype, vectors)):
            total = combine(u, operation, total, u.convert(u.load(x[row], at), carry.dtype))
            u.store(u.convert(total, y.dtype), y[row], at)
        u.store(total, carry, at)


def _chain(u: MacroSimulator, operation: str, dtype: np.dtype, side_by_side: int) -> float:
    """Return the cycles between dependent combinations, divided by those in flight."""
    if operation == "LSE":
        latency = (
            sum(u.costs(name, "F64").latency for name in ("VEXP", "VLOG1P"))
            + 2 * u.machine.fma_latency
            + 4
        )
    elif operation == "ADD":
        latency = u.machine.fma_latency if dtype.kind == "f" else 1
    else:
        latency = 4
    return (latency + 1) / max(1, min(side_by_side, INTERLEAVED))
