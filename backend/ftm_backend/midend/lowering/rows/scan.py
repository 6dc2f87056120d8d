"""Lowering of ``ftm.scan`` (cumsum, cumprod, ...): tile by tile, with a carry.

The row-major result is O x N x I, and the scan is along N. If I is large, tiles are N x I and the
scan goes down their columns, with contiguous transfers along I. Otherwise tiles are (O, I) x N and
the scan goes along rows. Cores share O and I, never N.
"""

from __future__ import annotations

from math import inf

from ftm_backend.dtypes import FLOATS
from ftm_backend.ir.linalg.body_builder import constant, identity
from ftm_backend.ir.linalg.function import Node, Statement
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.index_arithmetic import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices
from ftm_backend.midend.lowering.rows.gather_scatter import largest
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut
from ftm_backend.symbolic import ceildiv
from ftm_backend.target.presets import ELEMENT_BYTES

ONE_CORE_ELEMENTS = 20_000
"""Scans with fewer elements run on one core."""

_DOWN_FROM = 8
"""Contiguous columns from which a scan down columns is faster than one along rows."""

_PART_OF_AM = 4
"""A tile takes at most this part of AM: there may be two tiles, with two slots each."""

_TOGETHER = 4
"""Desired number of rows or columns that are scanned at once."""

_IDENTITY = {"add": 0.0, "mul": 1.0, "lse": -inf}


def one_core(statement: Statement) -> bool:
    """Whether sharing the scan among cores does not pay, or is impossible."""
    outer, length, inner = statement.loops
    return outer * inner == 1 or outer * length * inner < ONE_CORE_ELEMENTS


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point."""
    (statement,) = kernel.statements
    if statement.volume:
        _Scan(kernel, statement, b).build()


class _Scan:
    """A scan with axes 0 = O, 1 = N, 2 = I."""

    def __init__(self, kernel: Kernel, statement: Statement, b: TileBuilder) -> None:
        self.kernel, self.statement, self.b = kernel, statement, b
        self.source, self.result = statement.operands[0], statement.results[0]
        self.kind, self.dtype = statement.attributes["kind"], statement.results[0].value.dtype
        self.carried = "f64" if self.dtype in FLOATS else "i64"
        self.blocks = BlockTransfers(b, statement.loops)
        self.room = kernel.machine.am_bytes // _PART_OF_AM // ELEMENT_BYTES[self.carried]

    def build(self) -> None:
        """Emit the whole kernel."""
        if self.statement.loops[2] >= _DOWN_FROM:
            self._down()
        else:
            self._along()

    def _along(self) -> None:
        outer, length, inner = self.statement.loops
        share = ceildiv(outer * inner, 1 if self.kernel.one_core else self.kernel.machine.cores)
        columns = largest((length,), self.room // min(_TOGETHER, share))
        rows = largest((outer, inner), min(share, self.room // columns.elements))
        tiles = self._tiles(rows.elements, columns.elements, (rows.elements, 1))
        with self.b.for_(*core_share(self.b, self.kernel, rows.blocks)) as block:
            slices = self.blocks.block_slices((0, 2), rows, block)
            self._run(tiles, slices, (self.blocks.count((0, 2), slices), 1), columns, (0, 2), (1,))

    def _down(self) -> None:
        outer, length, inner = self.statement.loops
        cores = 1 if self.kernel.one_core else self.kernel.machine.cores
        share = max(_DOWN_FROM, ceildiv(inner, ceildiv(cores, outer)))
        columns = largest((inner,), min(share, self.room // min(_TOGETHER, length)))
        rows = largest((length,), self.room // columns.elements)
        tiles = self._tiles(rows.elements, columns.elements, (1, columns.elements))
        with self.b.for_(*core_share(self.b, self.kernel, outer * columns.blocks)) as number:
            slices = self.blocks.index_slices((0,), self.b.div(number, columns.blocks))
            slices |= self.blocks.block_slices((2,), columns, self.b.rem(number, columns.blocks))
            self._run(tiles, slices, (1, self.blocks.count((2,), slices)), rows, (1,), (2,))

    def _tiles(
        self, rows: int, columns: int, carry: tuple[int, int]
    ) -> tuple[TileDecl, TileDecl, TileDecl]:
        """Return the tiles of the source, the carry and the result.

        The result has a separate tile if loads overlap compute.
        """
        x = self.b.tile(self.dtype, rows, columns)
        y = self.b.tile(self.dtype, rows, columns) if self.kernel.machine.tile_buffers > 1 else x
        return x, self.b.tile(self.carried, *carry), y

    def _run(
        self,
        tiles: tuple[TileDecl, TileDecl, TileDecl],
        slices: Slices,
        carried: tuple[Index, Index],
        steps: TileCut,
        rows: tuple[int, ...],
        columns: tuple[int, ...],
    ) -> None:
        """Scan from start to end with one carry, ``steps`` at a time."""
        b, blocks = self.b, self.blocks
        x, carry, y = tiles
        b.map(*carried, [], [(carry, 0, "full")], lambda _: [self._identity()])
        with b.for_(0, steps.blocks) as step:
            inside = slices | blocks.block_slices((1,), steps, step)
            blocks.load(self.source.value, self.source.index, x, 0, inside, rows, columns)
            b.scan(self.kind, x, 0, carry, 0, y, 0, down=rows == (1,))
            for store in self.result.stores:
                blocks.store(y, 0, self.dtype, store, store.index, inside, rows, columns)

    def _identity(self) -> Node:
        if self.kind in ("min", "max"):
            return constant(identity(self.kind, self.carried), self.carried)
        number = _IDENTITY[self.kind]
        return constant(number if self.carried == "f64" else int(number), self.carried)
