"""Lowering of transposes on chip: copies (permutations, interleavings) with other contiguous axes.

DMA of single elements would move a granule for each. Instead, a tile is loaded along the source's
contiguous axis, transposed by ``TRANS``, and stored along the result's contiguous axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand, Statement
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices
from ftm_backend.midend.lowering.rows.gather_scatter import largest
from ftm_backend.midend.schedule.gemm.contraction import merge_loops
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["lower", "match_transpose"]

_PART_OF_AM = 6
"""A tile takes at most this part of AM: there are two tiles, with two slots each."""

_ROWS = 256
"""Most rows of a tile, which leaves enough columns for DMA's runs."""

_LAUNCHES = 16
"""A copy by single elements must take as long as so many DMA latencies for TRANS to pay."""


class TransposePattern(NamedTuple):
    """A copy over merged axes.

    Attributes:
        source: What is copied.
        extents: Extents of the axes.
        others: Axes outside of tiles.
        down: Axes of a tile's rows, contiguous in the result.
        along: Axes of a tile's columns, contiguous in the source.
        accesses: Access of the source, then of each store.
    """

    source: Operand
    extents: tuple[int, ...]
    others: tuple[int, ...]
    down: tuple[int, ...]
    along: tuple[int, ...]
    accesses: tuple[Affine, ...]


def match_transpose(
    statement: Statement, machine: MachineParameters, targets: Sequence[Affine]
) -> TransposePattern | None:
    """Match a copy that is worth transposing on chip.

    Args:
        statement: The statement.
        machine: The target.
        targets: Indices of its stores; the first one decides.

    Returns:
        The copy; None for other operations, and for copies whose rows are contiguous already.
    """
    if not targets or not _is_large_copy(statement, machine):
        return None
    (source,), result = statement.operands, targets[0]
    wanted = (source.index, *targets)
    if not all(is_integer(c) for index in wanted for c in index.coeffs):
        return None
    loops = [k for k, extent in enumerate(statement.loops) if extent != 1]
    loops.sort(key=lambda k: abs(result.coeffs[k]), reverse=True)
    extents, groups, accesses = merge_loops(statement.loops, {"all": loops}, wanted)
    read, written = accesses[0].coeffs, accesses[1].coeffs
    axes = groups["all"]
    contiguous = _contiguous_pair(axes, read, written)
    if contiguous is None:
        return None
    down, along = contiguous
    columns = _contiguous_axes(along, [k for k in axes if k != down], extents, read)
    rows = _contiguous_axes(down, [k for k in axes if k not in columns], extents, written)
    others = tuple(k for k in axes if k not in (*rows, *columns))
    return TransposePattern(source, extents, others, rows, columns, accesses)


def _contiguous_pair(
    axes: Sequence[int], read: Sequence[int], written: Sequence[int]
) -> tuple[int, int] | None:
    """Return the contiguous axes of the result and of the source, if rows become columns."""
    down = next((k for k in axes if written[k] == 1), None)
    along = next((k for k in axes if read[k] == 1), None)
    if down is None or along is None or down == along or abs(read[down]) <= 1:
        return None
    return down, along


def _is_large_copy(statement: Statement, machine: MachineParameters) -> bool:
    """Return whether a statement copies enough elements of one tensor, over constant loops."""
    if statement.gathers or statement.tensors or len(statement.operands) != 1:
        return False
    if not all(isinstance(n, int) and n > 0 for n in statement.loops):
        return False  # before questions about symbolic sizes, whose answers would be guards
    cycles = statement.volume * machine.dma_element_cycles
    return cycles >= _LAUNCHES * machine.dma_latency and statement.copied_view() is not None


def _contiguous_axes(
    axis: int, candidates: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> tuple[int, ...]:
    """Return ``axis`` and the axes that continue it in memory, outermost first."""
    found, length = [axis], extents[axis]
    while True:
        following = [k for k in candidates if k not in found and strides[k] == length]
        if not following:
            return tuple(found)
        found.insert(0, following[0])
        length *= extents[following[0]]


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel is no such copy.
    """
    (statement,) = kernel.statements
    stores = statement.results[0].stores
    pattern = match_transpose(statement, kernel.machine, [store.index for store in stores])
    if pattern is None:
        raise ValueError(f"{statement.op} over {statement.loops} is no copy to be transposed")
    _, *targets = pattern.accesses
    dtype = pattern.source.value.dtype
    rows, columns = _cuts(pattern, dtype, kernel)
    blocks = BlockTransfers(b, pattern.extents)
    loaded = b.tile(dtype, rows.elements, columns.elements)
    transposed = b.tile(dtype, columns.elements, rows.elements)
    outer_count = prod(pattern.extents[k] for k in pattern.others)
    with b.for_(*core_share(b, kernel, outer_count * rows.blocks * columns.blocks)) as number:
        slices = _slices(blocks, pattern, rows, columns, number)
        blocks.load(
            pattern.source.value,
            pattern.accesses[0],
            loaded,
            0,
            slices,
            pattern.down,
            pattern.along,
        )
        b.transpose(loaded, 0, transposed, 0)
        for store, target in zip(stores, targets, strict=True):
            blocks.store(transposed, 0, dtype, store, target, slices, pattern.along, pattern.down)


def _slices(
    blocks: BlockTransfers,
    pattern: TransposePattern,
    rows: TileCut,
    columns: TileCut,
    number: Index,
) -> Slices:
    b = blocks.b
    column, number = b.rem(number, columns.blocks), b.div(number, columns.blocks)
    row, number = b.rem(number, rows.blocks), b.div(number, rows.blocks)
    return (
        blocks.index_slices(pattern.others, number)
        | blocks.block_slices(pattern.down, rows, row)
        | blocks.block_slices(pattern.along, columns, column)
    )


def _cuts(pattern: TransposePattern, dtype: str, kernel: Kernel) -> tuple[TileCut, TileCut]:
    """Return tiles that fill their part of AM, or less to keep all cores busy."""
    item = ELEMENT_BYTES[dtype]
    room = kernel.machine.am_bytes // _PART_OF_AM // item
    down, along, others = (
        [pattern.extents[k] for k in group]
        for group in (pattern.down, pattern.along, pattern.others)
    )
    tiles = 1 if kernel.one_core else 2 * kernel.machine.cores
    share = -(-prod(down) * prod(along) * prod(others) // tiles)
    rows = largest(down, min(_ROWS, room))
    run = kernel.machine.dma_granule // item
    return rows, largest(
        along, max(min(room, share) // rows.elements, min(run, room // rows.elements))
    )
