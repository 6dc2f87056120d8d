"""Reduction epilogue of a contraction: partial sums of each block before it is stored.

Each row of a block (some rows of one channel's feature map) is a *part*. A statement after the
kernel's other statements sums the elements of each part, or the squares of their deviations from
the part's mean. Other kernels add up the partial sums. Example: the batch statistics of batch norm,
computed in the convolution before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ftm_backend.ir.linalg.affine import Affine, row_major
from ftm_backend.ir.linalg.body_builder import sums
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Store, Value
from ftm_backend.ir.linalg.strided_view import Strided, merged
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices
from ftm_backend.midend.lowering.map_bodies import mapped
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut

__all__ = ["PartialSums", "ReductionEpilogue", "partial_sums_of", "split_off_sums"]

Walk = tuple[tuple[int, int], ...]
"""Extents and strides, outermost first."""


def split_off_sums(statements: Sequence[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Split statements into the product with its elementwise epilogue, and the sums."""
    number = next((k for k, s in enumerate(statements) if k and s.is_reduction), len(statements))
    return list(statements[:number]), list(statements[number:])


@dataclass(frozen=True)
class PartialSums:
    """Division of a result into parts, one partial sum each.

    Attributes:
        outer: Extents and strides of the parts of a row.
        inner: Extents and strides of the elements of a part.
        row: Extent and stride of the rows (channels).
    """

    outer: Walk
    inner: Walk
    row: tuple[int, int]

    @property
    def count(self) -> int:
        """Number of elements of a part."""
        return prod(n for n, _ in self.inner)

    @property
    def loops(self) -> tuple[int, ...]:
        """Loops of a statement that sums each part."""
        return (*(n for n, _ in self.outer), *(n for n, _ in self.inner), self.row[0])

    def is_reduced_by(self, statement: Statement, operand: Operand) -> bool:
        """Whether a statement reduces exactly these elements to one value per row."""
        pairs = [*zip(statement.loops, operand.index.coeffs, strict=True)]
        row_loops = [
            pair
            for pair, reduced in zip(pairs, statement.reduced, strict=True)
            if not reduced and pair[0] > 1
        ]
        summed = [pair for pair, reduced in zip(pairs, statement.reduced, strict=True) if reduced]
        return (
            operand.index.const == 0
            and row_loops == [self.row]
            and _joined(summed) == _joined([*self.outer, *self.inner])
        )

    def of_elements(self, value: Value, element: Node) -> Statement:
        """Create the statement that sums each part of ``element`` into ``value``."""
        kept = [*range(len(self.outer)), len(self.loops) - 1]
        return sums(value, self.loops, kept, element)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the partial sums: parts, rows."""
        return (*(n for n, _ in self.outer), self.row[0])

    @property
    def element(self) -> Affine:
        """Index of an element, over the loops."""
        return Affine(0, (*(step for _, step in (*self.outer, *self.inner)), self.row[1]))

    @property
    def part(self) -> Affine:
        """Index of a partial sum, over the loops."""
        steps = row_major(self.shape)
        return Affine(0, (*steps[:-1], *(0 for _ in self.inner), steps[-1]))


def _joined(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    ordered = sorted(pairs, key=lambda pair: -pair[1])
    return merged(Strided(tuple(n for n, _ in ordered), tuple(step for _, step in ordered), 0))


def _sides(roles: OperandRoles, plan: Schedule) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of the rows and of the columns of a stored block."""
    form = roles.form
    return (form.n, form.m) if plan.transpose_c else (form.m, form.n)


def _has_plain_blocks(plan: Schedule | None) -> bool:
    """Whether blocks of C are rows and columns of the result, or of its transpose."""
    return plan is not None and plan.depth > 1 and not plan.col2im_c


def partial_sums_of(roles: OperandRoles) -> PartialSums | None:
    """Return the parts of a plan's blocks.

    None if their sizes differ, or if a row of a block is not a row of the result.
    """
    plan, form = roles.plan, roles.form
    store = _only_store(roles)
    if store is None or plan is None or not _has_plain_blocks(plan):
        return None
    access = roles.access(store.index)
    rows, columns = _sides(roles, plan)
    cut = plan.m if plan.transpose_c else plan.n
    wide = [axis for axis in rows if form.extents[axis] > 1]
    is_one_row = access.const == 0 and len(wide) == 1
    if not is_one_row or not _is_even(cut, form.sizes(columns)):
        return None

    def pair(axis: int) -> tuple[int, int]:
        return form.extents[axis], access.coeffs[axis]

    pieces, step = form.extents[columns[cut.dim]] // cut.size, access.coeffs[columns[cut.dim]]
    outer = (*map(pair, (*form.batch, *columns[: cut.dim])), (pieces, step * cut.size))
    return PartialSums(outer, ((cut.size, step), *map(pair, columns[cut.dim + 1 :])), pair(wide[0]))


def _only_store(roles: OperandRoles) -> Store | None:
    """Return the store of the epilogue's only result; None if there are several."""
    outputs = roles.epilogue.outputs
    return outputs[0].stores[0] if [len(output.stores) for output in outputs] == [1] else None


def _is_even(cut: TileCut, extents: Sequence[int]) -> bool:
    """Whether blocks of columns have the same size."""
    return bool(extents) and extents[cut.dim] % cut.size == 0


class ReductionEpilogue:
    """Emits the partial sums of one kernel."""

    def __init__(self, blocks: BlockTransfers, roles: OperandRoles) -> None:
        """Declare the tiles of the sums.

        Raises:
            ValueError: The sums do not match the product's blocks.
        """
        parts = partial_sums_of(roles)
        if parts is None or any(s.loops != parts.loops for s in roles.sums):
            raise ValueError("sums do not go with the blocks of their product")
        plan = roles.plan
        assert plan is not None, "sums have been matched with the schedule's blocks"
        self.blocks, self.roles = blocks, roles
        self.rows, self.columns = _sides(roles, plan)
        (self.cut, across) = (plan.m, plan.n) if plan.transpose_c else (plan.n, plan.m)
        self.tiles = {
            s.results[0].value: blocks.b.tile(s.results[0].value.dtype, across.elements, 1)
            for s in roles.sums
        }

    def emit(self, slices: Slices, made: TileDecl, slot: Index) -> None:
        """Emit the sums of a block and their stores.

        Args:
            slices: The block.
            made: Its tile.
            slot: The tile's slot.
        """
        b = self.blocks.b
        rows = self.blocks.count(self.rows, slices)
        columns = self.blocks.count(self.columns, slices)
        for statement in self.roles.sums:
            (result,) = statement.results
            before = [o.value for o in statement.operands if o.value in self.tiles]
            ins = [(made, slot, "full"), *((self.tiles[value], 0, "col") for value in before)]

            def body(
                arguments: Sequence[Node],
                result: FunctionResult = result,
                before: Sequence[Value] = before,
            ) -> list[Node]:
                known = dict(zip(before, arguments[1:], strict=True))
                return mapped(
                    b,
                    [result.yields],
                    lambda n: known.get(n.payload.value, arguments[0]) if n.op == "in" else None,
                )

            b.map(rows, columns, ins, [(self.tiles[result.value], 0, "rsum")], body)
        for statement in self.roles.sums:
            self._store(statement, slices, rows)

    def _store(self, statement: Statement, slices: Slices, rows: Index) -> None:
        b = self.blocks.b
        (result,) = statement.results
        cut_axis = self.columns[self.cut.dim]
        starts: list[Index] = [
            slices[axis][0] for axis in (*self.roles.form.batch, *self.columns[: self.cut.dim])
        ]
        starts.append(b.div(slices[cut_axis][0], self.cut.size))
        (row,) = (axis for axis in self.rows if self.roles.form.extents[axis] > 1)
        for store in result.stores:
            at: Index = store.index.const
            for start, step in zip(
                (*starts, slices[row][0]),
                (*store.index.coeffs[: len(starts)], store.index.coeffs[-1]),
                strict=True,
            ):
                at = b.add(at, b.mul(start, step))
            buffer = b.buffer(store.symbol, result.value.dtype, store.elements)
            b.store(
                self.tiles[result.value], 0, buffer, at, [rows, 1], [store.index.coeffs[-1], 1], 1
            )
