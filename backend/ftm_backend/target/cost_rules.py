"""The rules by which time is charged on a machine: the one cost model of the planner and of the
cycle model.

``perf_model.cycle_model`` charges the instructions of a program by these rules; the midend asks
them what a program that it has not written yet would be charged. Extents may be integers or numpy
arrays of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ftm_backend.target.presets import MachineParameters

__all__ = [
    "Col2ImCost",
    "MicroKernels",
    "bytes_per_cycle",
    "columns_taken",
    "dot_cycles",
    "even_runs",
    "fold_cycles",
    "granules",
    "micro_kernels",
    "outer_cycles",
    "pieces",
    "tile_loop_cycles",
    "transfer_cycles",
    "transpose_cycles",
    "windows_cycles",
]

DOT_COLUMNS = 8
"""Columns of C in the dot-product micro-kernel: with 6 rows it keeps 48 sums, each a vector along
K."""


def pieces(extent: Any, size: Any) -> Any:
    """How many pieces of ``size`` cover ``extent``."""
    return -(-extent // size)


class MicroKernels(NamedTuple):
    """Calls that cover the columns of a block: of the narrow micro-kernel and of the wide one, and
    of a thin one (0 or 1), which holds ``vectors`` of each row."""

    narrow: Any
    wide: Any
    thin: Any
    vectors: Any


def micro_kernels(machine: MachineParameters, dtype: str, n: Any) -> MicroKernels:
    """The micro-kernels that cover N columns: the fewest calls, and the fewest vectors.

    One and two columns of vectors, and five where the widths are three and four, leave some of the
    narrow ones' empty: the last of these is a thin one, if its elements are broadcast fast enough
    for that to help.
    """
    vectors = pieces(n, machine.lanes(dtype))
    if not machine.mm_wide_overhead:
        return MicroKernels(pieces(vectors, machine.mm_vectors), 0, 0, 1)
    calls = pieces(vectors, machine.mm_vectors + 1)
    spare = calls * (machine.mm_vectors + 1) - vectors
    over = spare > calls
    narrow = spare + (calls - spare) * over
    thin = over * 1 if machine.mm_thin(dtype) else 0
    return MicroKernels(
        narrow - thin, calls - narrow, thin, machine.mm_vectors - (spare - calls) * over
    )


def columns_taken(machine: MachineParameters, dtype: str, n: Any) -> Any:
    """Columns of the micro-kernels that cover N, with those that are empty."""
    found = micro_kernels(machine, dtype, n)
    vectors = (
        found.narrow * machine.mm_vectors
        + found.wide * (machine.mm_vectors + 1)
        + found.thin * found.vectors
    )
    return machine.lanes(dtype) * vectors


def tile_loop_cycles(machine: MachineParameters, compute: Any, dma: Any, steps: Any) -> Any:
    """Return the cycles of a loop over tiles.

    With overlap the slower of DMA and compute counts, and the DMA of one step, which is the first
    load and the last store, overlaps nothing. Without overlap, the core does both in turn.

    Args:
        machine: The machine whose core runs the loop.
        compute: Cycles of the computation of all steps.
        dma: Cycles of the transfers of all steps.
        steps: Iterations of the loop.
    """
    if not machine.dma_overlaps:
        return compute + dma
    return np.maximum(compute, dma) + dma / np.maximum(steps, 1.0)


def outer_cycles(
    machine: MachineParameters, dtype: str, m: Any, n: Any, k: Any, runs: Any = 1
) -> Any:
    """``MM`` of M x N x K that accumulates in ``dtype``, by the micro-kernels of outer products.

    One keeps ``mm_rows`` x ``mm_vectors`` vectors of C and takes its overhead and, for each step of
    K, their number over the pipes; the wide one keeps one vector more of each row. A thin one has
    fewer vectors than multiply-add pipes are deep, so it takes two steps at once, into sums of
    their own, and waits for the elements of A if those of a step are broadcast more slowly than
    they are used. runs: stretches that K is walked in, in each of which a thin one ends with two
    steps.
    """
    found = micro_kernels(machine, dtype, n)
    rows = machine.mm_rows
    step = rows / machine.fma_units * k
    calls = found.narrow * (machine.mm_overhead + machine.mm_vectors * step)
    calls = calls + found.wide * (machine.mm_wide_overhead + (machine.mm_vectors + 1) * step)
    if machine.mm_thin(dtype):
        used, broadcast = (
            rows / machine.fma_units * found.vectors,
            rows * machine.mm_broadcast_cycles(dtype),
        )
        slower = used + (broadcast - used) * (broadcast > used)
        calls = calls + found.thin * (
            machine.mm_thin_overhead + 2 * runs * pieces(pieces(k, runs), 2) * slower
        )
    return pieces(m, rows) * calls


def windows_cycles(
    machine: MachineParameters, dtype: str, m: Any, n: Any, runs: Any, k: Any
) -> Any:
    """``MMW``: as ``MM``; each of ``runs`` stretches of k through which the addresses of A step
    evenly ends in a branch."""
    found = micro_kernels(machine, dtype, n)
    calls = pieces(m, machine.mm_rows) * (found.narrow + found.wide + found.thin)
    return outer_cycles(machine, dtype, m, n, k, runs) + calls * (runs - 1) * machine.branch_latency


OFFSETS = 9
"""Elements of A that a step of the loop over k may take at fixed distances: an address and eight
offset registers."""


def even_runs(extents: Sequence[int]) -> int:
    """How many runs ``windows_cycles`` charges for the dimensions of k, outermost first.

    The innermost ones are unrolled as far as offset registers reach, one more is the loop, the
    others start it anew.
    """
    left = [extent for extent in extents if extent != 1]
    unrolled = 1
    while left and unrolled * left[-1] <= OFFSETS:
        unrolled *= left.pop()
    return prod(left[:-1])


def dot_cycles(machine: MachineParameters, dtype: str, m: Any, n: Any, k: Any) -> Any:
    """``MM.TB``: B is read along K, as dot products of vectors that end in reductions across the
    lanes."""
    sums = machine.mm_rows * DOT_COLUMNS
    ramp = sums / machine.fma_units
    each = ramp * pieces(k, machine.lanes(dtype)) + sums * machine.reduce_cycles + ramp
    return pieces(m, machine.mm_rows) * pieces(n, DOT_COLUMNS) * each


HELD_ROUNDS = 5
"""Rounds of exchanges between 2 ** 5 vectors, which registers hold; blocks of more rows go through
the scratchpad once more."""


def transpose_cycles(
    machine: MachineParameters, dtype: str, rows: Any, columns: Any, zipped: bool = False
) -> Any:
    """``TRANS`` of rows x columns: a shuffle for each vector in each round of exchanges, of which
    blocks as high as a vector has lanes take log2(lanes); zipped: one more. Narrow types have more
    rounds and far fewer vectors. A machine that was measured takes what it was measured to."""
    lanes = machine.lanes(dtype)
    rounds = lanes.bit_length() - 1
    each = zipped / lanes + machine.mm_transpose_cycles
    if machine.mm_transpose_cycles == 0:
        memory = machine.vector_load_latency + machine.vector_store_latency
        each += rounds / lanes + (2 * memory + rounds if rounds > HELD_ROUNDS else 0) / lanes**2
    return rows * columns * each


class Col2ImCost(NamedTuple):
    """The windows that ``FOLD`` sums, for each dimension of an image: taps, windows, size of the
    image, distance of windows."""

    taps: tuple[int, ...]
    windows: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements of a phase in each dimension: those that are ``strides`` apart."""
        return tuple(
            pieces(size, stride) for size, stride in zip(self.sizes, self.strides, strict=True)
        )


def fold_cycles(
    machine: MachineParameters, dtype: str, shape: Col2ImCost, channels: Any, elements: Any
) -> Any:
    """``FOLD``: as its expansion. For each channel and vector of the ``elements`` of a phase, a
    shuffle for each tap; elements of the phases of a row are interleaved by as many for each vector
    as there are phases but one, and each row that a vector reaches into takes one more to be stored
    by itself."""
    lanes, phases = machine.lanes(dtype), prod(shape.strides)
    pieces_of_rows = 1 + (phases > 1) * pieces(lanes - 1, shape.sizes[-1])
    shuffles = prod(shape.taps) + phases * (
        shape.strides[-1] - 1 + (pieces_of_rows if phases > 1 else 0)
    )
    moved = 2 * prod(shape.taps) + phases * pieces_of_rows
    each = max(shuffles, moved / machine.vector_memory_ports)
    return channels * pieces(elements, lanes) * each


def granules(machine: MachineParameters, run_bytes: Any) -> Any:
    """Bytes that DDR moves for a contiguous run of so many."""
    return pieces(run_bytes, machine.dma_granule) * machine.dma_granule


def bytes_per_cycle(machine: MachineParameters, sharing: float = 1.0) -> float:
    """DDR bandwidth of one core while so many share the cluster's port."""
    return min(machine.ddr_bandwidth / sharing, machine.core_bandwidth) / machine.clock_hz


def transfer_cycles(
    machine: MachineParameters, ddr_cycles: Any, gsm_cycles: Any, element_cycles: Any
) -> Any:
    """Time of the engine for one transfer: its latency, and the slowest of DDR, GSM and the
    engine's own steps."""
    slowest = ddr_cycles + (gsm_cycles - ddr_cycles) * (gsm_cycles > ddr_cycles)
    return machine.dma_latency + slowest + (element_cycles - slowest) * (element_cycles > slowest)
