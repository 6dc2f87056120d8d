"""Lowering of ``ftm.sort``: rows of i64 of any length, complete or only the first elements (top-k).

A row that fits the scratchpad is sorted there. A longer row is sorted in *chunks*; then passes
merge pairs of sorted *runs* between the result's buffer and workspaces until one run is left
(``merge_pass``). For a top-k with small k, each chunk keeps only its first k elements, and these
form a new, shorter row.
"""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Statement
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.operands import BufferAddress
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers
from ftm_backend.midend.lowering.rows.gather_scatter import largest
from ftm_backend.midend.lowering.sort.merge_pass import merge_runs
from ftm_backend.symbolic import ceildiv, divides, size_hint
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

_ITEM = ELEMENT_BYTES["i64"]

_FEW = 4
"""Keeping only the first k elements of a chunk pays if it has at least k times this many."""

_ONE_CORE_STEPS = 20_000
"""Sorts with fewer elements times passes run on one core."""


def chunk_elements(machine: MachineParameters) -> int:
    """Return the length of the longest row that is sorted in the scratchpad, a power of two."""
    return 1 << (machine.am_bytes // _ITEM).bit_length() - 1


def one_core(statement: Statement, machine: MachineParameters) -> bool:
    """Whether sharing the sort among cores does not pay, or is impossible."""
    rows, length = statement.loops
    if rows == 1 and length <= chunk_elements(machine):
        return True
    return size_hint(rows * length) * max(1, size_hint(length).bit_length()) < _ONE_CORE_STEPS


@dataclass(frozen=True)
class _Stages:
    """Stages that reduce a row to its sorted first elements.

    Attributes:
        chunk: Elements of a chunk.
        lengths: Length of a row after each round that keeps a few elements of every chunk.
        passes: Number of merge passes after that.
    """

    chunk: int
    lengths: tuple[int, ...]
    passes: int

    @staticmethod
    def of(statement: Statement, machine: MachineParameters) -> _Stages:
        """Return the stages of an ``ftm.sort``."""
        length, kept = statement.loops[1], statement.results[0].value.shape[1]
        chunk = chunk_elements(machine)
        if kept * _FEW > min(length, chunk // 2):
            return _Stages(chunk, (), max(0, ceildiv(length, chunk) - 1).bit_length())
        chunk //= 2  # the kept elements have a separate tile
        lengths = []
        while length > chunk:
            whole, rest = divmod(length, chunk)
            length = whole * kept + min(rest, kept)
            lengths.append(length)
        return _Stages(chunk, tuple(lengths), 0)


def workspace(kernel: Kernel) -> list[tuple[str, int]]:
    """Return the workspaces as (dtype, elements).

    They hold the rows of each round, or the runs between passes and two numbers of each core.
    """
    (statement,) = kernel.statements
    rows, length = statement.loops
    stages = _Stages.of(statement, kernel.machine)
    between = [("i64", rows * after) for after in stages.lengths]
    if stages.passes:
        # The result alternates with one workspace only if it has room for complete rows. Otherwise
        # two workspaces alternate, and the last pass writes the result.
        buffers = 1 if statement.results[0].value.shape[1] == length else 2
        between += [("i64", rows * length)] * buffers + [("i64", 2 * max(1, kernel.machine.cores))]
    return between


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point."""
    (statement,) = kernel.statements
    if statement.volume and statement.results[0].value.shape[1]:
        _Sort(kernel, statement, b).build()


class _Sort:
    """A sort with axes 0 = rows, 1 = elements of a row."""

    def __init__(self, kernel: Kernel, statement: Statement, b: TileBuilder) -> None:
        self.kernel, self.statement, self.b = kernel, statement, b
        self.rows, self.length = statement.loops
        self.kept = statement.results[0].value.shape[1]
        self.stages = _Stages.of(statement, kernel.machine)
        (store,) = statement.results[0].stores
        self.result = b.buffer(store.symbol, "i64", store.elements)
        self.spaces = [
            b.buffer(str(space.symbol), "i64", space.shape[0]) for space in kernel.workspaces
        ]

    def build(self) -> None:
        """Emit all stages; the last one writes the result."""
        operand, stages = self.statement.operands[0], self.stages
        source, access, length = (
            BlockTransfers(self.b, ()).buffer(operand.value),
            operand.index,
            self.length,
        )
        for space, after in zip(self.spaces, stages.lengths, strict=False):
            self._sort_chunks(source, access, length, self.kept, space, after)
            self._meet()
            source, access, length = space, Affine(0, (after, 1)), after
        if not stages.passes:
            self._sort_chunks(source, access, length, self.kept, self.result, self.kept)
            return
        *buffers, ends = self.spaces
        buffers = [self.result, *buffers] if len(buffers) == 1 else buffers
        current = stages.passes % 2
        self._sort_chunks(source, access, length, stages.chunk, buffers[current], length)
        for number in range(stages.passes):
            self._meet()
            last = number == stages.passes - 1
            target = self.result if last else buffers[1 - current]
            merge_runs(
                self.b,
                self.kernel,
                stages.chunk << number,
                (self.rows, length, self.kept if last else length),
                buffers[current],
                target,
                ends,
                stages.chunk,
            )
            current = 1 - current

    def _meet(self) -> None:
        if not self.kernel.one_core:
            self.b.barrier()

    def _sort_chunks(
        self,
        source: BufferAddress,
        access: Affine,
        length: int,
        kept: int,
        target: BufferAddress,
        after: int,
    ) -> None:
        """Sort chunks of rows of ``length`` elements.

        The first ``kept`` elements of each chunk form rows of ``after`` elements in ``target``.
        """
        b, chunk = self.b, self.stages.chunk
        blocks = BlockTransfers(b, (self.rows, length))
        cores = 1 if self.kernel.one_core else self.kernel.machine.cores
        width = min(chunk, length)
        kept = min(kept, width)
        rows = largest((self.rows,), min(ceildiv(self.rows, cores), chunk // width))
        tile = b.tile("i64", rows.elements, width)
        few = b.tile("i64", rows.elements, kept) if kept * _FEW <= width else tile
        pieces = ceildiv(length, width)
        with b.for_(*core_share(b, self.kernel, rows.blocks * pieces)) as number:
            slices = blocks.block_slices((0,), rows, b.div(number, pieces))
            piece = b.rem(number, pieces)
            start = b.mul(piece, width)
            count = width if divides(width, length) else b.min(width, b.sub(length, start))
            slices[1] = (start, count)
            b.load(source, tile=tile, slot=0, **blocks.block(access, slices, (0,), (1,)))
            b.sort(tile, 0, few, 0)
            at = b.add(b.mul(slices[0][0], after), b.mul(piece, kept))
            b.store(few, 0, target, at, [slices[0][1], b.min(count, kept)], [after, 1], 1)
