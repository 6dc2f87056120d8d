"""What one tile instruction costs on a machine: transfers, matrix products, and what else is a
macro; ``cycles_map`` knows maps.

Pure functions of extents and ``MachineParameters``; the timelines are in ``cycles_timeline``. All
results are *modelled*. Macros cost what their expansions do (``target.macros``); matrix products
and transposition are charged by the closed form of theirs (``target.cost_rules``), which planners
can evaluate for many sizes at once, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from typing import Any

import numpy as np

from ftm_backend.target import cost_rules, op_costs
from ftm_backend.target.element_types import BY_TOKEN
from ftm_backend.target.instruction_table import BY_NAME
from ftm_backend.target.macros.vector_unit import VectorUnit
from ftm_backend.target.presets import MachineParameters


@dataclass(frozen=True, slots=True)
class TransferWork:
    """A DMA transfer: bytes that arrive, bytes that DDR moves for them, GSM bytes, cycles bound by
    elements.

    launches: how many follow one another, each with its latency.
    """

    bytes: int
    ddr_bytes: int
    gsm_bytes: int
    element_cycles: float
    launches: int = 1


@dataclass(frozen=True, slots=True)
class TileWork:
    """Work of the core: cycles, floating-point operations, and the cycles these take at peak."""

    cycles: float
    flops: int
    ideal: float


ANYWHERE = inf


def transfer(
    machine: MachineParameters,
    element: int,
    rows: Sequence[tuple[int, float]],
    columns: Sequence[tuple[int, float]],
    gsm: bool = False,
    near: bool = False,
) -> TransferWork:
    """The cost of moving ``extent, stride`` dimensions of ``element``-byte elements between a
    buffer and a tile.

    gsm: the tile lies in GSM.  near: so does the buffer, which else lies in DDR.

    A contiguous run is rounded up to the DMA granule; dimensions of stride 0 are read once; an
    innermost stride other than 1 makes the elements move one by one. A dimension that an index goes
    through has stride ``ANYWHERE``.
    """
    dims = [d for d in (*rows, *columns) if d[0] != 1]
    count = 1
    for extent, _ in dims:
        count *= extent
    if count == 0:
        return TransferWork(0, 0, 0, 0.0)
    moved = [d for d in dims if d[1] != 0]
    run = 1
    while moved and moved[-1][1] == run:
        run *= moved.pop()[0]
    runs = 1
    for extent, _ in moved:
        runs *= extent
    ddr = runs * cost_rules.granules(machine, run * element)
    strided = bool(moved) and run == 1 and dims[-1][1] not in (0, 1)
    cycles = count * machine.dma_element_cycles if strided else 0.0
    if strided:
        ddr = min(ddr, _distinct_bytes(machine, dims, element))
    shared = count * element if gsm else 0
    return (
        TransferWork(count * element, 0, ddr + shared, cycles)
        if near
        else TransferWork(count * element, ddr, shared, cycles)
    )


def window_copy(
    machine: MachineParameters,
    element: int,
    rows: Sequence[tuple[int, float]],
    columns: Sequence[tuple[int, float]],
    gsm: bool,
) -> TransferWork:
    """The cost of ``DCW``: contiguous runs at the rate of GSM, as `transfer` counts them, and
    single elements one by one.

    gsm: one of the tiles lies there, so that other cores' transfers share that rate.
    """
    moved = transfer(machine, element, rows, columns)
    cycles = max(moved.element_cycles, moved.ddr_bytes / machine.gsm_bytes_per_cycle)
    return TransferWork(moved.bytes, 0, moved.bytes if gsm else 0, cycles)


def _distinct_bytes(
    machine: MachineParameters, dims: Sequence[tuple[int, float]], element: int
) -> int:
    """Bytes of DDR that a transposing transfer touches when neighbouring elements share a
    granule."""
    total, shared = element, False
    for extent, stride in sorted((d for d in dims if d[1]), key=lambda d: abs(d[1])):
        if abs(stride) == 1:
            total = cost_rules.granules(machine, extent * element)
            shared = True
        else:
            total = total * extent if shared else max(total, machine.dma_granule) * extent
            shared = True
    return total


def product(machine: MachineParameters, dtype: str, m: int, n: int, k: int, tb: bool) -> TileWork:
    """``MM`` of M x N x K, accumulating in ``dtype``.

    A transposed A costs nothing, as its elements are broadcast one by one; a transposed B is read
    along K.
    """
    if m == 0 or n == 0 or k == 0:
        return TileWork(0.0, 0, 0.0)
    cycles = (cost_rules.dot_cycles if tb else cost_rules.outer_cycles)(machine, dtype, m, n, k)
    return TileWork(cycles, 2 * m * n * k, m * n * k / (machine.fma_units * machine.lanes(dtype)))


def windows(
    machine: MachineParameters, dtype: str, rows: Sequence[int], n: int, columns: Sequence[int]
) -> TileWork:
    """``MMW``: ``rows`` and ``columns`` are the extents of A's dimensions."""
    m, k = prod(rows), prod(columns)
    if m == 0 or n == 0 or k == 0:
        return TileWork(0.0, 0, 0.0)
    cycles = cost_rules.windows_cycles(machine, dtype, m, n, cost_rules.even_runs(columns), k)
    return TileWork(cycles, 2 * m * n * k, m * n * k / (machine.fma_units * machine.lanes(dtype)))


@lru_cache(maxsize=4096)
def scan(
    machine: MachineParameters, dtype: str, rows: int, columns: int, operation: str, down: bool
) -> float:
    """Cycles of ``SCAN`` over rows x columns of ``dtype``, in f64 or i64."""
    carried = "f64" if BY_TOKEN[dtype].kind == "float" else "i64"
    x = np.zeros((rows, columns), _array(dtype))
    carry = np.zeros(columns if down else rows, _array(carried))
    return _counted(machine, "SCAN", carried, operation, x, carry, x.copy(), down)


@lru_cache(maxsize=4096)
def sort(machine: MachineParameters, rows: int, columns: int, kept: int) -> float:
    """Cycles of ``SORT`` of rows of int64 of which ``kept`` elements are."""
    return _counted(
        machine,
        "SORT",
        "i64",
        np.zeros((rows, columns), np.int64),
        np.zeros((rows, kept), np.int64),
    )


@lru_cache(maxsize=4096)
def merge(machine: MachineParameters, rows: int, a: int, b: int) -> float:
    """Cycles of ``MERGE`` of ``a`` and ``b`` columns."""
    parts = (np.zeros((rows, count), np.int64) for count in (a, b, a + b))
    return _counted(machine, "MERGE", "i64", *parts)


@lru_cache(maxsize=4096)
def combination(
    machine: MachineParameters, dtype: str, rows: int, columns: int, operation: str
) -> float:
    """Cycles of the core for ``DSC`` with arithmetic."""
    x = np.zeros((rows, columns), _array(dtype))
    return _counted(
        machine, "DSC", dtype, operation, x, x.ravel().copy(), np.zeros((rows, columns), np.int64)
    )


def _array(dtype: str) -> np.dtype[Any]:
    """For arrays of a type's size and kind, whose values nothing depends on."""
    return np.dtype(np.float16) if dtype == "bf16" else BY_TOKEN[dtype].array


def _counted(machine: MachineParameters, name: str, dtype: str, *operands: object) -> float:
    """The cycles of an expansion, of which each loop is gone through once."""
    macro = BY_NAME[name].macro
    assert macro is not None
    unit = VectorUnit(machine, dtype, op_costs.cost, dry=True)
    macro.function(unit, *operands)
    return unit.cycles
