"""Cost model of the matrix unit and of DMA, shared by the scheduler and the cycle model.

``perf_model.cycle_model`` charges the instructions of a program by these functions; the midend
evaluates them for schedules that it considers. Costs are in core clock cycles. Extents may be
integers or numpy arrays of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, overload

import numpy as np

from ftm_backend.target.element_types import Numbers
from ftm_backend.target.presets import MachineParameters

DOT_COLUMNS = 8
"""Columns of C in the dot-product micro-kernel: 6 rows x 8 columns = 48 sums, one vector each."""


@overload
def pieces(extent: int, size: int) -> int: ...
@overload
def pieces(extent: float, size: float) -> float: ...
@overload
def pieces(extent: Numbers, size: Numbers) -> Numbers: ...
def pieces(extent: Numbers, size: Numbers) -> Numbers:
    """Return ``ceil(extent / size)``."""
    return -(-extent // size)


class MicroKernels(NamedTuple):
    """How many calls of each micro-kernel cover the columns of a block.

    Attributes:
        narrow: Calls of the narrow micro-kernel.
        wide: Calls of the wide one.
        thin: Calls of a thin one: 0 or 1.
        vectors: Vectors of each row that the thin one holds.
    """

    narrow: Numbers
    wide: Numbers
    thin: Numbers
    vectors: Numbers


def micro_kernels(machine: MachineParameters, dtype: str, n: Numbers) -> MicroKernels:
    """Return the micro-kernels that cover ``n`` columns: the fewest calls, then fewest vectors.

    If the widths are three and four vectors, then one, two and five columns of vectors do not fill
    the narrow micro-kernels. The last one is then a thin one, if elements of A can be broadcast
    fast enough for it to pay.
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


@overload
def padded_columns(machine: MachineParameters, dtype: str, n: int) -> int: ...
@overload
def padded_columns(machine: MachineParameters, dtype: str, n: Numbers) -> Numbers: ...
def padded_columns(machine: MachineParameters, dtype: str, n: Numbers) -> Numbers:
    """Return the columns of the micro-kernels that cover ``n`` columns, including unused ones."""
    found = micro_kernels(machine, dtype, n)
    vectors = (
        found.narrow * machine.mm_vectors
        + found.wide * (machine.mm_vectors + 1)
        + found.thin * found.vectors
    )
    return machine.lanes(dtype) * vectors


@overload
def tile_loop_cycles(
    machine: MachineParameters, compute: float, dma: float, steps: float
) -> float: ...
@overload
def tile_loop_cycles(
    machine: MachineParameters, compute: Numbers, dma: Numbers, steps: Numbers
) -> Numbers: ...
def tile_loop_cycles(
    machine: MachineParameters, compute: Numbers, dma: Numbers, steps: Numbers
) -> Numbers:
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
    machine: MachineParameters, dtype: str, m: Numbers, n: Numbers, k: Numbers, runs: Numbers = 1
) -> Any:
    """Return the cycles of ``MM`` (M x N x K, accumulating in ``dtype``) by outer products.

    The narrow micro-kernel keeps ``mm_rows`` x ``mm_vectors`` vectors of C. It costs its overhead
    plus, for each step of K, that number divided by the number of FMA pipes. The wide one keeps one
    vector more per row. A thin one has fewer vectors than the FMA pipeline is deep, so it executes
    two steps of K at once, with separate sums, and stalls if elements of A are broadcast more
    slowly than they are used.

    Args:
        machine: The machine.
        dtype: Accumulator type.
        m: Rows of C.
        n: Columns of C.
        k: Length of the sums.
        runs: Loops that K is split into; in each, a thin micro-kernel rounds up to two steps.
    """
    found = micro_kernels(machine, dtype, n)
    rows = machine.mm_rows
    step = rows / machine.fma_units * k
    calls: Numbers = found.narrow * (machine.mm_overhead + machine.mm_vectors * step)
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
    machine: MachineParameters, dtype: str, m: Numbers, n: Numbers, runs: Numbers, k: Numbers
) -> Any:
    """Return the cycles of ``MMW``: those of ``MM``, plus one branch between runs.

    ``runs`` is the number of loops over k in which the addresses of A advance by a fixed step.
    """
    found = micro_kernels(machine, dtype, n)
    calls = pieces(m, machine.mm_rows) * (found.narrow + found.wide + found.thin)
    return outer_cycles(machine, dtype, m, n, k, runs) + calls * (runs - 1) * machine.branch_latency


OFFSETS = 9
"""Elements of A that a loop step reads at fixed distances: an address, eight offset registers."""


def even_runs(extents: Sequence[int]) -> int:
    """Return the number of loops (see `windows_cycles`) for the dimensions of k, outermost first.

    The innermost dimensions are unrolled while offset registers reach, the next one is the loop,
    and the others restart it.
    """
    left = [extent for extent in extents if extent != 1]
    unrolled = 1
    while left and unrolled * left[-1] <= OFFSETS:
        unrolled *= left.pop()
    return prod(left[:-1])


@overload
def dot_cycles(machine: MachineParameters, dtype: str, m: float, n: float, k: float) -> float: ...
@overload
def dot_cycles(
    machine: MachineParameters, dtype: str, m: Numbers, n: Numbers, k: Numbers
) -> Numbers: ...
def dot_cycles(
    machine: MachineParameters, dtype: str, m: Numbers, n: Numbers, k: Numbers
) -> Numbers:
    """Return the cycles of ``MM.TB``: dot products along K that end in cross-lane reductions."""
    sums = machine.mm_rows * DOT_COLUMNS
    ramp = sums / machine.fma_units
    each = ramp * pieces(k, machine.lanes(dtype)) + sums * machine.reduce_cycles + ramp
    return pieces(m, machine.mm_rows) * pieces(n, DOT_COLUMNS) * each


HELD_ROUNDS = 5
"""Rounds of exchanges between registers: 2 ** 5 vectors fit; more rows go through memory once."""


def transpose_cycles(
    machine: MachineParameters, dtype: str, rows: Numbers, columns: Numbers
) -> Any:
    """Return the cycles of ``TRANS`` of rows x columns.

    Each vector takes one shuffle per round of exchanges, and blocks of ``lanes`` rows take
    log2(lanes) rounds. Narrow types have more rounds and far fewer vectors.
    A measured cost of the machine (``mm_transpose_cycles``) replaces this estimate.
    """
    lanes = machine.lanes(dtype)
    rounds = lanes.bit_length() - 1
    each = machine.mm_transpose_cycles
    if machine.mm_transpose_cycles == 0:
        memory = machine.vector_load_latency + machine.vector_store_latency
        each += rounds / lanes + (2 * memory + rounds if rounds > HELD_ROUNDS else 0) / lanes**2
    return rows * columns * each


class Col2ImCost(NamedTuple):
    """Shape of a ``FOLD``, per dimension of the feature map.

    Attributes:
        taps: Filter taps.
        windows: Number of windows.
        sizes: Extents of the feature map.
        strides: Distance of windows.
    """

    taps: tuple[int, ...]
    windows: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements of one phase per dimension; a phase's elements are ``strides`` apart."""
        return tuple(
            pieces(size, stride) for size, stride in zip(self.sizes, self.strides, strict=True)
        )


def fold_cycles(
    machine: MachineParameters, dtype: str, shape: Col2ImCost, channels: Numbers, elements: Numbers
) -> Any:
    """Return the cycles of ``FOLD`` as its expansion takes them.

    Per channel and vector of the ``elements`` of a phase there is one shuffle for each tap. The
    phases of a row are interleaved by (phases - 1) shuffles per vector, and each further row that a
    vector reaches into takes one shuffle and one store more.
    """
    lanes, phases = machine.lanes(dtype), prod(shape.strides)
    pieces_of_rows = 1 + (phases > 1) * pieces(lanes - 1, shape.sizes[-1])
    shuffles = prod(shape.taps) + phases * (
        shape.strides[-1] - 1 + (pieces_of_rows if phases > 1 else 0)
    )
    moved = 2 * prod(shape.taps) + phases * pieces_of_rows
    each = max(shuffles, moved / machine.vector_memory_ports)
    return channels * pieces(elements, lanes) * each


@overload
def granules(machine: MachineParameters, run_bytes: int) -> int: ...
@overload
def granules(machine: MachineParameters, run_bytes: float) -> float: ...
@overload
def granules(machine: MachineParameters, run_bytes: Numbers) -> Numbers: ...
def granules(machine: MachineParameters, run_bytes: Numbers) -> Numbers:
    """Return the bytes that DDR transfers for a contiguous run of ``run_bytes``."""
    return pieces(run_bytes, machine.dma_granule) * machine.dma_granule


def bytes_per_cycle(machine: MachineParameters, sharing: float = 1.0) -> float:
    """Return the DDR bytes per cycle of one core while ``sharing`` cores use the cluster's port."""
    return min(machine.ddr_bandwidth / sharing, machine.core_bandwidth) / machine.clock_hz


@overload
def transfer_cycles(
    machine: MachineParameters, ddr_cycles: float, gsm_cycles: float, element_cycles: float
) -> float: ...
@overload
def transfer_cycles(
    machine: MachineParameters, ddr_cycles: Numbers, gsm_cycles: Numbers, element_cycles: Numbers
) -> Numbers: ...
def transfer_cycles(
    machine: MachineParameters, ddr_cycles: Numbers, gsm_cycles: Numbers, element_cycles: Numbers
) -> Numbers:
    """Return the time of one DMA transfer: latency plus the slowest of its three resources.

    Args:
        machine: The machine.
        ddr_cycles: Time at DDR bandwidth.
        gsm_cycles: Time at GSM bandwidth.
        element_cycles: Time that the engine needs to step through the elements.
    """
    slowest = ddr_cycles + (gsm_cycles - ddr_cycles) * (gsm_cycles > ddr_cycles)
    return machine.dma_latency + slowest + (element_cycles - slowest) * (element_cycles > slowest)
