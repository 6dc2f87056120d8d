"""Coalesced transfers: short rows that are contiguous with each other are transferred together.

Example: batch norm on [N, C, 2, 2] in f32 has channels as rows. In each image a channel has a run
of 4 elements (16 bytes), the next channel follows, and DMA moves whole granules. So one transfer
loads all channels of an image as one row of another tile, and ``DCW`` splits it on chip, or
assembles it before a store.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.ir.tile.operands import BufferAddress
from ftm_backend.midend.schedule.loop_nest.merged_axes import AxisPosition
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES

if TYPE_CHECKING:
    from ftm_backend.midend.lowering.loop_nest.emit_loops import NestEmitter

__all__ = ["is_profitable", "load", "store"]


def is_profitable(nest: NestEmitter, position: AxisPosition, dtype: str) -> bool:
    """Whether a tile of all rows and columns at ``position`` is cheaper to transfer coalesced."""
    plan, machine, steps = nest.plan, nest.kernel.machine, position.steps
    if (
        not machine.transposes_on_chip
        or len(plan.rows) != 1
        or len(plan.columns) < 2
        or any(a in plan.cut for a in plan.columns)
    ):
        return False
    (row,), outer, inner = plan.rows, plan.columns[:-1], plan.columns[-1]
    if not all(
        isinstance(n, int) for n in (row.extent, *(a.extent for a in plan.columns), *steps.values())
    ):
        return False
    if (
        steps.get(inner) != 1
        or steps.get(row) != inner.extent
        or any(steps.get(a, 0) <= 0 for a in outer)
    ):
        return False
    item, deep, across = ELEMENT_BYTES[dtype], plan.row_count(), prod(a.extent for a in outer)
    rate, run = cost_rules.bytes_per_cycle(machine, machine.cores), inner.extent * item
    separate = across * deep * cost_rules.granules(machine, run) / rate
    coalesced = across * cost_rules.granules(machine, deep * run) / rate
    on_chip = across * deep * cost_rules.granules(machine, run) / machine.gsm_bytes_per_cycle
    return coalesced + cost_rules.transfer_cycles(machine, 0.0, on_chip, 0.0) < separate


def load(nest: NestEmitter, buffer: BufferAddress, position: AxisPosition, tile: TileDecl) -> None:
    """Load a tile."""
    b, joined = nest.b, _tile(nest, tile.dtype)
    b.load(buffer, nest.address(position), joined, 0, *_in_memory(nest, position))
    count, run = _sizes(nest)
    b.copy_windows(
        joined, 0, [nest.extent(rows=True), count, run], [run, joined.columns, 1], 1, tile, 0
    )


def store(nest: NestEmitter, tile: TileDecl, buffer: BufferAddress, position: AxisPosition) -> None:
    """Store a tile."""
    b, joined = nest.b, _tile(nest, tile.dtype)
    count, run = _sizes(nest)
    b.copy_windows(
        tile, 0, [count, nest.extent(rows=True), run], [run, tile.columns, 1], 1, joined, 0
    )
    b.store(joined, 0, buffer, nest.address(position), *_in_memory(nest, position))


def _sizes(nest: NestEmitter) -> tuple[int, int]:
    """Return the number of runs of a row, and the elements of a run."""
    return prod(a.extent for a in nest.plan.columns[:-1]), nest.plan.columns[-1].extent


def _tile(nest: NestEmitter, dtype: str) -> TileDecl:
    count, run = _sizes(nest)
    return nest.b.tile(dtype, count, nest.plan.row_count() * run)


def _in_memory(nest: NestEmitter, position: AxisPosition) -> tuple[list[Index], list[int], int]:
    """Return extents and strides of the transfer, and its number of row dimensions."""
    outer = nest.plan.columns[:-1]
    run = nest.b.mul(nest.extent(rows=True), nest.plan.columns[-1].extent)
    return [*(a.extent for a in outer), run], [*(position.steps[a] for a in outer), 1], len(outer)
