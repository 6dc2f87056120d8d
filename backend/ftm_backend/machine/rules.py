"""The rules by which time is charged on a machine: the one cost model of the planner and of the cycle model.

``machine.cycles`` charges the instructions of a program by these rules; the midend asks them what a program that
it has not written yet would be charged.  Extents may be integers or numpy arrays of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ftm_backend.machine.presets import MachineParameters

__all__ = [
    "bytes_per_cycle",
    "columns_taken",
    "dot_cycles",
    "even_runs",
    "granules",
    "micro_kernels",
    "outer_cycles",
    "pieces",
    "transfer_cycles",
    "transpose_cycles",
    "windows_cycles",
]

DOT_COLUMNS = 8
"""Columns of C in the dot-product micro-kernel: with 6 rows it keeps 48 sums, each a vector along K."""


def pieces(extent: Any, size: Any) -> Any:
    """How many pieces of ``size`` cover ``extent``."""
    return -(-extent // size)


def micro_kernels(machine: MachineParameters, dtype: str, n: Any) -> tuple[Any, Any]:
    """How many narrow and how many wide micro-kernels cover N columns: the fewest, and the fewest vectors.

    One and two columns of vectors, and five where the widths are three and four, leave some of them empty.
    """
    vectors = pieces(n, machine.lanes(dtype))
    if not machine.mm_wide_overhead:
        return pieces(vectors, machine.mm_vectors), 0
    calls = pieces(vectors, machine.mm_vectors + 1)
    spare = calls * (machine.mm_vectors + 1) - vectors
    narrow = spare + (calls - spare) * (spare > calls)
    return narrow, calls - narrow


def columns_taken(machine: MachineParameters, dtype: str, n: Any) -> Any:
    """Columns of the micro-kernels that cover N, with those that are empty."""
    narrow, wide = micro_kernels(machine, dtype, n)
    return machine.lanes(dtype) * (narrow * machine.mm_vectors + wide * (machine.mm_vectors + 1))


def outer_cycles(machine: MachineParameters, dtype: str, m: Any, n: Any, k: Any) -> Any:
    """``MM`` of M x N x K that accumulates in ``dtype``, by the micro-kernels of outer products.

    One keeps ``mm_rows`` x ``mm_vectors`` vectors of C and takes its overhead and, for each step of K, their number
    over the pipes; the wide one keeps one vector more of each row.
    """
    narrow, wide = micro_kernels(machine, dtype, n)
    step = machine.mm_rows / machine.fma_units * k
    calls = narrow * (machine.mm_overhead + machine.mm_vectors * step)
    return pieces(m, machine.mm_rows) * (calls + wide * (machine.mm_wide_overhead + (machine.mm_vectors + 1) * step))


def windows_cycles(machine: MachineParameters, dtype: str, m: Any, n: Any, runs: Any, k: Any) -> Any:
    """``MMW``: as ``MM``; each of ``runs`` stretches of k through which the addresses of A step evenly ends in a branch."""
    calls = pieces(m, machine.mm_rows) * sum(micro_kernels(machine, dtype, n))
    return outer_cycles(machine, dtype, m, n, k) + calls * (runs - 1) * machine.branch_latency


OFFSETS = 9
"""Elements of A that a step of the loop over k may take at fixed distances: an address and eight offset registers."""


def even_runs(extents: Sequence[int]) -> int:
    """How many runs ``windows_cycles`` charges for the dimensions of k, outermost first.

    The innermost ones are unrolled as far as offset registers reach, one more is the loop, the others start it anew.
    """
    left = [extent for extent in extents if extent != 1]
    unrolled = 1
    while left and unrolled * left[-1] <= OFFSETS:
        unrolled *= left.pop()
    return prod(left[:-1])


def dot_cycles(machine: MachineParameters, dtype: str, m: Any, n: Any, k: Any) -> Any:
    """``MM.TB``: B is read along K, as dot products of vectors that end in reductions across the lanes."""
    sums = machine.mm_rows * DOT_COLUMNS
    ramp = sums / machine.fma_units
    each = ramp * pieces(k, machine.lanes(dtype)) + sums * machine.reduce_cycles + ramp
    return pieces(m, machine.mm_rows) * pieces(n, DOT_COLUMNS) * each


HELD_ROUNDS = 5
"""Rounds of exchanges between 2 ** 5 vectors, which registers hold; blocks of more rows go through the scratchpad once more."""


def transpose_cycles(machine: MachineParameters, dtype: str, rows: Any, columns: Any, zipped: bool = False) -> Any:
    """``TRANS`` of rows x columns: a shuffle for each vector in each round of exchanges, of which blocks as high as a vector has lanes
    take log2(lanes); zipped: one more.  Narrow types have more rounds and far fewer vectors.  A machine that was measured takes what it
    was measured to."""
    lanes = machine.lanes(dtype)
    rounds = lanes.bit_length() - 1
    each = zipped / lanes + machine.mm_transpose_cycles
    if machine.mm_transpose_cycles == 0:
        memory = machine.vector_load_latency + machine.vector_store_latency
        each += rounds / lanes + (2 * memory + rounds if rounds > HELD_ROUNDS else 0) / lanes**2
    return rows * columns * each


def granules(machine: MachineParameters, run_bytes: Any) -> Any:
    """Bytes that DDR moves for a contiguous run of so many."""
    return pieces(run_bytes, machine.dma_granule) * machine.dma_granule


def bytes_per_cycle(machine: MachineParameters, sharing: float = 1.0) -> float:
    """DDR bandwidth of one core while so many share the cluster's port."""
    return min(machine.ddr_bandwidth / sharing, machine.core_bandwidth) / machine.clock_hz


def transfer_cycles(machine: MachineParameters, ddr_cycles: Any, gsm_cycles: Any, element_cycles: Any) -> Any:
    """Time of the engine for one transfer: its latency, and the slowest of DDR, GSM and the engine's own steps."""
    slowest = ddr_cycles + (gsm_cycles - ddr_cycles) * (gsm_cycles > ddr_cycles)
    return machine.dma_latency + slowest + (element_cycles - slowest) * (element_cycles > slowest)
