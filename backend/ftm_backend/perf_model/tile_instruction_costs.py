"""Costs of tile instructions: transfers, matrix products and macros; maps are in ``map_costs``.

All are pure functions of extents and machine parameters, and all results are *modelled*. A macro
costs what its expansion costs (``target.macros``). Matrix products and transposition are charged by
closed forms of their expansions (``target.cost_rules``), which schedulers can evaluate for many
sizes at once; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod

import numpy as np

from ftm_backend.target import cost_rules, op_costs
from ftm_backend.target.element_types import BY_TOKEN
from ftm_backend.target.instruction_table import BY_NAME
from ftm_backend.target.macros.macro_simulator import MacroSimulator
from ftm_backend.target.presets import MachineParameters


@dataclass(frozen=True, slots=True)
class TransferWork:
    """Work of a DMA transfer.

    Attributes:
        bytes: Bytes that arrive.
        ddr_bytes: Bytes that DDR moves.
        gsm_bytes: Bytes that GSM moves.
        element_cycles: Cycles that the engine needs to step through elements.
        launches: Number of consecutive transfers, each with its own latency.
    """

    bytes: int
    ddr_bytes: int
    gsm_bytes: int
    element_cycles: float
    launches: int = 1


@dataclass(frozen=True, slots=True)
class TileWork:
    """Work of the core: cycles, floating-point operations, and their cycles at peak."""

    cycles: float
    flops: int
    ideal: float


ANYWHERE = inf
"""Stride of a dimension that is addressed by data."""


def transfer(
    machine: MachineParameters,
    element: int,
    rows: Sequence[tuple[int, float]],
    columns: Sequence[tuple[int, float]],
    gsm: bool = False,
    near: bool = False,
) -> TransferWork:
    """Return the work of a transfer between a buffer and a tile.

    A contiguous run is rounded up to the DMA granule. Dimensions of stride 0 are read once. With an
    innermost stride other than 1, elements move one by one.

    Args:
        machine: The machine.
        element: Bytes of an element.
        rows: (extent, stride) of row dimensions; the stride may be `ANYWHERE`.
        columns: Likewise for column dimensions.
        gsm: Whether the tile is in GSM.
        near: Whether the buffer is in GSM instead of DDR.
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
    """Return the work of ``DCW``: runs at the rate of GSM as in `transfer`, elements one by one.

    ``gsm`` tells whether one of the tiles is in GSM, so that cores share that rate.
    """
    moved = transfer(machine, element, rows, columns)
    cycles = max(moved.element_cycles, moved.ddr_bytes / machine.gsm_bytes_per_cycle)
    return TransferWork(moved.bytes, 0, moved.bytes if gsm else 0, cycles)


def _distinct_bytes(
    machine: MachineParameters, dims: Sequence[tuple[int, float]], element: int
) -> int:
    """Return the DDR bytes of a strided transfer whose neighboring elements share granules."""
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
    """Return the work of ``MM`` (M x N x K, accumulating in ``dtype``).

    A transposed A is free, as its elements are broadcast one by one. A transposed B (``tb``) is
    read along K.
    """
    if m == 0 or n == 0 or k == 0:
        return TileWork(0.0, 0, 0.0)
    cycles = (cost_rules.dot_cycles if tb else cost_rules.outer_cycles)(machine, dtype, m, n, k)
    return TileWork(cycles, 2 * m * n * k, m * n * k / (machine.fma_units * machine.lanes(dtype)))


def windows(
    machine: MachineParameters, dtype: str, rows: Sequence[int], n: int, columns: Sequence[int]
) -> TileWork:
    """Return the work of ``MMW``; ``rows`` and ``columns`` are the extents of A's dimensions."""
    m, k = prod(rows), prod(columns)
    if m == 0 or n == 0 or k == 0:
        return TileWork(0.0, 0, 0.0)
    cycles = cost_rules.windows_cycles(machine, dtype, m, n, cost_rules.even_runs(columns), k)
    return TileWork(cycles, 2 * m * n * k, m * n * k / (machine.fma_units * machine.lanes(dtype)))


@lru_cache(maxsize=4096)
def scan(
    machine: MachineParameters, dtype: str, rows: int, columns: int, operation: str, down: bool
) -> float:
    """Return the cycles of ``SCAN`` on rows x columns of ``dtype``; it computes in f64 or i64."""
    carried = "f64" if BY_TOKEN[dtype].kind == "float" else "i64"
    x = np.zeros((rows, columns), _array(dtype))
    carry = np.zeros(columns if down else rows, _array(carried))
    return _counted(machine, "SCAN", carried, operation, x, carry, x.copy(), down)


@lru_cache(maxsize=4096)
def sort(machine: MachineParameters, rows: int, columns: int, kept: int) -> float:
    """Return the cycles of ``SORT`` of rows of int64, keeping ``kept`` elements of each."""
    return _counted(
        machine,
        "SORT",
        "i64",
        np.zeros((rows, columns), np.int64),
        np.zeros((rows, kept), np.int64),
    )


@lru_cache(maxsize=4096)
def merge(machine: MachineParameters, rows: int, a: int, b: int) -> float:
    """Return the cycles of ``MERGE`` of rows of ``a`` and of ``b`` elements."""
    parts = (np.zeros((rows, count), np.int64) for count in (a, b, a + b))
    return _counted(machine, "MERGE", "i64", *parts)


@lru_cache(maxsize=4096)
def combination(
    machine: MachineParameters, dtype: str, rows: int, columns: int, operation: str
) -> float:
    """Return the cycles of the core for ``DSC`` with arithmetic."""
    x = np.zeros((rows, columns), _array(dtype))
    return _counted(
        machine, "DSC", dtype, operation, x, x.ravel().copy(), np.zeros((rows, columns), np.int64)
    )


def _array(dtype: str) -> np.dtype:
    """Return a numpy type of the right size and kind; no result depends on values."""
    return np.dtype(np.float16) if dtype == "bf16" else BY_TOKEN[dtype].array


def _counted(machine: MachineParameters, name: str, dtype: str, *operands: object) -> float:
    """Execute an expansion dry and return its cycles."""
    macro = BY_NAME[name].macro
    assert macro is not None
    unit = MacroSimulator(machine, dtype, op_costs.cost, dry=True)
    macro.function(unit, *operands)
    return unit.cycles
