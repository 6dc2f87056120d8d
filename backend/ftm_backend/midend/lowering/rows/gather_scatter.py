"""Lowering of ``ftm.scatter``, and of gathers of whole rows (embeddings, ``index_select``).

Both use DMA's indexed transfers of rows. A scatter processes its rows in order, so repeated indices
give the same result every time. Cores share its columns and thus never write the same element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Operand, Statement, Store, walk
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices, TileBody
from ftm_backend.midend.lowering.rows.match_row_gather import RowGather, match_gather
from ftm_backend.midend.schedule.gemm.contraction import merge_loops
from ftm_backend.midend.schedule.gemm.dynamic_tiling import dynamic_cut
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut, cuts
from ftm_backend.symbolic import ceildiv, size_hint
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["largest", "lower", "match_gather"]

_PART_OF_AM = 3
"""A row kernel plans for this part of AM: the pass ``multi-buffer`` may double its tiles."""

_LEAST_COLUMNS = 16
"""Least columns of a core that make sharing a scatter pay."""


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point.

    Raises:
        ValueError: The kernel is neither one scatter nor one gather of rows.
    """
    (statement,) = kernel.statements
    if statement.op == "ftm.scatter":
        _Scatter(kernel, statement, b).build()
        return
    found = match_gather(statement)
    if found is None:
        raise ValueError(f"{statement.op} over {statement.loops} neither scatters nor gathers rows")
    _Gather(kernel, found, b).build()


def largest(extents: Sequence[int], most: int) -> TileCut:
    """Return the largest cut of a group with at most ``most`` elements."""
    return dynamic_cut(
        cuts(tuple(map(size_hint, extents)), 1, max(1, size_hint(most)))[-1], extents
    )


class _Scatter:
    """``dest[indices[i], :] (reduce)= updates[i, :]``.

    Axes are 0: rows of updates, 1: columns, 2: rows of dest.
    """

    def __init__(self, kernel: Kernel, statement: Statement, b: TileBuilder) -> None:
        self.kernel, self.b, self.statement = kernel, b, statement
        self.dest, self.indices, self.updates = statement.operands
        shapes = [t.view.sizes for t in statement.tensors]
        (self.entries, self.width), (self.moves,) = shapes[0], shapes[1]
        self.blocks = BlockTransfers(b, (self.moves, self.width, self.entries))

    def build(self) -> None:
        """For each block of columns, copy the initial values unless in place, then scatter."""
        if not self.entries or not self.width:
            return
        machine = self.kernel.machine
        item = ELEMENT_BYTES[self.dest.value.dtype]
        room = machine.am_bytes // _PART_OF_AM // item
        share = max(_LEAST_COLUMNS, ceildiv(size_hint(self.width), machine.cores))
        columns = largest((self.width,), min(share, room))
        rows = largest(
            (max(1, self.moves),),
            min(room // size_hint(columns.elements), machine.am_bytes // _PART_OF_AM // 8),
        )
        stores = self.statement.results[0].stores
        with self.b.for_(*core_share(self.b, self.kernel, columns.blocks)) as block:
            at = self.blocks.block_slices((1,), columns, block)
            for store in stores:
                if store.symbol != self.dest.value.symbol:
                    self._copy(store, at, columns, room)
            if self.moves:
                self._move(at, rows, columns)

    def _copy(self, store: Store, at: Slices, columns: TileCut, room: int) -> None:
        b, rows = self.b, largest((self.entries,), room // columns.elements)
        dtype = self.dest.value.dtype
        tile = b.tile(dtype, rows.elements, columns.elements)
        source, target = self._access(self.dest, 2), Affine(store.index.const, (0, 1, self.width))
        with b.for_(0, rows.blocks) as block:
            slices = at | self.blocks.block_slices((2,), rows, block)
            self.blocks.load(self.dest.value, source, tile, 0, slices, (2,), (1,))
            self.blocks.store(tile, 0, dtype, store, target, slices, (2,), (1,))

    def _access(self, operand: Operand, row_axis: int) -> Affine:
        down, along = operand.index.coeffs
        coeffs = [0, along, 0]
        coeffs[row_axis] = down
        return Affine(operand.index.const, tuple(coeffs))

    def _move(self, at: Slices, rows: TileCut, columns: TileCut) -> None:
        b, blocks = self.b, self.blocks
        ids = b.tile(self.indices.value.dtype, rows.elements, 1)
        tile = b.tile(self.updates.value.dtype, rows.elements, columns.elements)
        numbers = Affine(self.indices.index.const, (self.indices.index.coeffs[0], 0, 0))
        with b.for_(0, rows.blocks) as block:
            slices = at | blocks.block_slices((0,), rows, block)
            blocks.load(self.indices.value, numbers, ids, 0, slices, (0,), ())
            blocks.load(
                self.updates.value, self._access(self.updates, 0), tile, 0, slices, (0,), (1,)
            )
            for store in self.statement.results[0].stores:
                buffer = b.buffer(store.symbol, self.dest.value.dtype, store.elements)
                offset = b.add(store.index.const, at[1][0])
                b.store_rows(
                    tile,
                    0,
                    ids,
                    0,
                    buffer,
                    offset,
                    self.width,
                    at[1][1],
                    self.statement.attributes["reduce"],
                )


class _Gather:
    """A gather of rows of a table, with a fused elementwise body."""

    def __init__(self, kernel: Kernel, found: RowGather, b: TileBuilder) -> None:
        self.kernel, self.gather, self.b = kernel, found, b
        statement = found.statement
        self.row_reads = tuple(n.payload for n in walk([found.identity]) if n.op == "in")
        run = Affine(0, self._run(statement.loops, found.columns))
        accesses = [
            run,
            *(o.index for o in found.operands),
            *(o.index for o in self.row_reads),
            *found.positions,
            *(store.index for result in statement.results for store in result.stores),
        ]
        accesses = list(dict.fromkeys(accesses))
        groups = {"outside": [], "rows": list(found.rows), "columns": list(found.columns)}
        extents, axes, over = merge_loops(statement.loops, groups, accesses)
        self.access = dict(zip(accesses, over, strict=True))
        self.run = over[0]
        self.outside: tuple[int, ...] = ()
        self.rows, self.columns = axes["rows"], axes["columns"]
        # An index is linear in a tile's row and column, so these may not span two axes.
        if found.positions:
            self.outside = self.rows[:-1] + self.columns[:-1]
            self.rows, self.columns = self.rows[-1:], self.columns[-1:]
        self.blocks = BlockTransfers(b, extents)

    @staticmethod
    def _run(loops: Sequence[int], columns: Sequence[int]) -> tuple[int, ...]:
        """Return the coefficients of the element within a row."""
        coeffs, length = [0] * len(loops), 1
        for loop in reversed(columns):
            coeffs[loop] = length
            length *= loops[loop]
        return tuple(coeffs)

    def build(self) -> None:
        """For each block of rows, emit the indices, the gather, the body and the stores."""
        b, blocks, found = self.b, self.blocks, self.gather
        statement = found.statement
        tiles = (
            1
            + len(found.operands)
            + sum(1 for r in statement.results if r.yields is not found.gather)
        )
        widest = max(
            ELEMENT_BYTES[v.dtype] for v in [found.table, *(r.value for r in statement.results)]
        )
        room = self.kernel.machine.am_bytes // _PART_OF_AM // (tiles * widest)
        row_extents, column_extents = (
            [blocks.extents[a] for a in g] for g in (self.rows, self.columns)
        )
        columns = largest(column_extents, room)
        share = ceildiv(size_hint(prod(row_extents)), self.kernel.machine.cores)
        rows = largest(row_extents, min(share, room // size_hint(columns.elements)))
        tile = b.tile(found.table.dtype, rows.elements, columns.elements)
        computed = self._computed_numbers(rows)
        ids = (
            b.tile(self.row_reads[0].value.dtype, rows.elements, 1)
            if computed is None
            else computed.tiles[id(found.identity)]
        )
        body = TileBody(
            blocks,
            self.rows,
            self.columns,
            (rows.elements, columns.elements),
            found.operands,
            [(r.yields, r.stores) for r in statement.results],
            self.access.__getitem__,
            {id(found.gather): tile},
        )
        entries = prod(blocks.extents[axis] for axis in self.outside)
        with b.for_(*core_share(b, self.kernel, entries * rows.blocks)) as number:
            slices = blocks.index_slices(self.outside, b.div(number, rows.blocks))
            slices |= blocks.block_slices(self.rows, rows, b.rem(number, rows.blocks))
            if computed is not None:
                computed.build(slices)
            else:
                ids_at = self.access[self.row_reads[0].index]
                blocks.load(self.row_reads[0].value, ids_at, ids, 0, slices, self.rows, ())
            with b.for_(0, columns.blocks) as block:
                inside = slices | blocks.block_slices(self.columns, columns, block)
                offset = b.add(found.base, blocks.address(self.run, inside))
                b.load_rows(
                    blocks.buffer(found.table),
                    offset,
                    ids,
                    0,
                    tile,
                    0,
                    found.row_stride,
                    blocks.count(self.columns, inside),
                )
                body.build(inside)

    def _computed_numbers(self, rows: TileCut) -> TileBody | None:
        """Return the body that computes row indices; None if they are a plain tensor."""
        if self.gather.identity.op == "in":
            return None
        return TileBody(
            self.blocks,
            self.rows,
            (),
            (rows.elements, 1),
            self.row_reads,
            [(self.gather.identity, ())],
            self.access.__getitem__,
            {},
        )
