"""Cost model of operand blocks: DDR traffic, scratchpad bytes, and cycles of fused prologues.

Sizes may be numpy arrays over the grid of candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ftm_backend.midend.lowering.gemm.im2col_geometry import COLUMN_SIDES
from ftm_backend.midend.schedule.gemm.core_partition import BlockExtents
from ftm_backend.midend.schedule.gemm.tiling_problem import OperandTraffic, TilingProblem
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import Numbers, slot_bytes
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = [
    "box_bytes",
    "box_cycles",
    "box_traffic",
    "fill_cycles",
    "operand_traffic",
    "parameter_bytes",
    "prologue_cycles",
    "run_bytes",
    "sums_cycles",
]


def operand_traffic(
    machine: MachineParameters,
    x: OperandTraffic,
    first: BlockExtents,
    second: BlockExtents,
    transposed: bool,
) -> tuple[Numbers, Numbers]:
    """Return the mean traffic of a block of ``first`` x ``second`` elements of an operand.

    Args:
        machine: The target.
        x: The operand.
        first: Extents along its first group.
        second: Extents along its second group.
        transposed: Whether the rows of the transfer lie along the first group.

    Returns:
        Bytes that DDR moves, and the DMA engine's cycles for single elements.
    """
    item = ELEMENT_BYTES[x.dtype]
    (inner, run), (across, adjacent) = ((first, x.runs[0]), (second, x.runs[1]))[
        :: 1 if transposed else -1
    ]
    elements = inner.mean * across.mean
    if run == 0:  # adjacent elements that are transferred one by one share DDR granules
        length = np.minimum(across.full, adjacent) if adjacent > 1 else x.adjacent
        return elements / length * cost_rules.granules(
            machine, length * item
        ), elements * machine.dma_element_cycles
    return across.mean * inner.mean_of(
        lambda each: run_bytes(machine, x, 0 if transposed else 1, each, across.mean)
    ), 0.0


def run_bytes(
    machine: MachineParameters, x: OperandTraffic, group: int, inner: Numbers, across: Numbers = 1
) -> Numbers:
    """Return the bytes that DDR moves for ``inner`` elements along a contiguous group.

    Rows merge into one transfer if a block takes whole runs and the operand allows it.
    """
    item, run = ELEMENT_BYTES[x.dtype], x.runs[group]
    length = (
        np.where(inner == run, run * across, np.minimum(inner, run))
        if x.coalesces[group]
        else np.minimum(inner, run)
    )
    return inner / length * cost_rules.granules(machine, length * item)


def prologue_cycles(
    machine: MachineParameters,
    problem: TilingProblem,
    k_tile: Numbers,
    n_tile: Numbers,
    b_layout: str,
) -> Numbers:
    """Return the cycles of the fused prologue that computes a block of B."""
    rows, columns = (k_tile, n_tile) if b_layout == "plain" else (n_tile, k_tile)
    return (
        problem.b_prologue.interval
        * rows
        * cost_rules.pieces(columns, machine.lanes(problem.b.dtype))
        + 40
    )


def fill_cycles(
    machine: MachineParameters, blocks: Numbers, moved_each: Numbers, elements: Numbers
) -> Numbers:
    """Return the cycles until ``blocks`` blocks are in GSM, for the core that loads most of them.

    Args:
        machine: The target.
        blocks: Number of blocks.
        moved_each: DDR bytes of a block.
        elements: DMA cycles of a block for single elements.
    """
    most = cost_rules.pieces(blocks, machine.cores)
    rate = (
        np.minimum(machine.ddr_bandwidth * most / blocks, machine.core_bandwidth) / machine.clock_hz
    )
    return most * cost_rules.transfer_cycles(machine, moved_each / rate, 0.0, elements)


def parameter_bytes(
    problem: TilingProblem, k_tile: Numbers, n_tile: Numbers, b_layout: str
) -> Numbers:
    """Return the scratchpad bytes of the broadcast operands of B's prologue, double-buffered."""
    item, down = ELEMENT_BYTES[problem.b.dtype], k_tile if b_layout == "plain" else n_tile
    return (
        2
        * problem.b_prologue.broadcasts
        * (slot_bytes(down, 1, item) + slot_bytes(1, k_tile + n_tile, item))
    )


def box_traffic(
    machine: MachineParameters, problem: TilingProblem, lengths: Sequence[Numbers], block: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the mean traffic of the window boxes of a block of A.

    Args:
        machine: The target.
        problem: The contraction.
        lengths: Extents of a box.
        block: Its elements.

    Returns:
        DDR bytes and DMA cycles for single elements, of all tensors that a box is computed from.
    """
    item, count = ELEMENT_BYTES[problem.a.dtype], problem.a_prologue.full_loads
    unit, run = problem.a_windows[-1].unit, lengths[-1]
    joined: np.ndarray = np.asarray(True)
    for side, length in zip(problem.a_windows[-2::-1], lengths[-2::-1], strict=True):
        joined = joined & (run * unit == side.unit)
        run = np.where(joined, run * length, run)
    if unit != 1:
        return count * block * cost_rules.granules(
            machine, item
        ), count * block * machine.dma_element_cycles
    return count * block / run * cost_rules.granules(machine, run * item), 0.0


def box_cycles(
    machine: MachineParameters, problem: TilingProblem, lengths: Sequence[Numbers]
) -> Numbers:
    """Return the cycles of the fused prologue that computes a window box of A."""
    rows, columns = prod(lengths[:-COLUMN_SIDES]), prod(lengths[-COLUMN_SIDES:])
    return (
        problem.a_prologue.interval
        * rows
        * cost_rules.pieces(columns, machine.lanes(problem.a.dtype))
        + 40
        + machine.issue_cycles
    )


def box_bytes(problem: TilingProblem, lengths: Sequence[Numbers]) -> Numbers:
    """Return the scratchpad bytes of the other operands of a box's prologue, double-buffered."""
    item = ELEMENT_BYTES[problem.a.dtype]
    rows = prod(lengths[:-COLUMN_SIDES])
    columns = prod(lengths[-COLUMN_SIDES:])
    parameters = problem.a_prologue.broadcasts * (
        slot_bytes(rows, 1, item) + slot_bytes(1, columns, item)
    )
    return 2 * ((problem.a_prologue.tiles - 1) * slot_bytes(rows, columns, item) + parameters)


def sums_cycles(
    machine: MachineParameters, problem: TilingProblem, rows: Numbers, columns: Numbers
) -> Numbers:
    """Return the cycles of the row sums of a block of C."""
    each = (
        cost_rules.pieces(columns, machine.lanes(problem.accumulator)) * 1.0 + machine.reduce_cycles
    )
    return problem.sums * (rows * each + 40)
