"""One pass of attention's backward: a resident block of one sequence, passing blocks of the other.

Loads are one step ahead. The resident operands are transposed once per block. The passing operands
are then the ones that the matrix unit broadcasts element by element, so they need no transposition.
Sums have the resident rows as columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import NamedTuple

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.linalg.scalar_nodes import constant
from ftm_backend.ir.tile.builder import Index, TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.kernel_ir.kernel import Kernel, core_share
from ftm_backend.midend.lowering.attention.block_loads import BlockOperand
from ftm_backend.midend.lowering.gemm.block_transfers import BlockTransfers, Slices, TileBody
from ftm_backend.midend.schedule.attention.match_backward import (
    AttentionBackwardPattern,
    OperandGradient,
)

__all__ = ["BackwardPass", "PassSizes", "PassStep", "ProductOperands", "StoredBlock"]


class PassSizes(NamedTuple):
    """Rows of a resident and of a passing block, and the memory of the passing operands."""

    resident: int
    passing: int
    space: str


class PassStep(NamedTuple):
    """Indices of a step.

    Attributes:
        number: Position in the core's sequence.
        unit: The resident block.
        passing: The passing block within the batch entry.
        slices: Positions of both blocks.
    """

    number: Index
    unit: Index
    passing: Index
    slices: Slices


ProductOperands = tuple[Node, Node]
"""Operands of the scores and of the gradients' products: (k, v) or (q, grad)."""


class BackwardPass(ABC):
    """What all passes share: loads one step ahead, transpositions, and the two products.

    Products are passing x resident; sums are d or v x resident.
    """

    def __init__(
        self,
        pattern: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: PassSizes,
        axes: tuple[int, int],
        operands: tuple[ProductOperands, ProductOperands],
    ) -> None:
        """Declare the tiles of the operands and products.

        Args:
            pattern: The matched pattern.
            b: The builder.
            sizes: Block sizes.
            axes: Axes of the resident and of the passing block.
            operands: Resident and passing operands of the two products.
        """
        self.pattern, self.b, self.sizes, self.axes = pattern, b, sizes, axes
        self.blocks = BlockTransfers(b, pattern.extents)
        self.batch, self.m, self.n, self.d, self.v = pattern.axes
        resident, passing = sizes.resident, sizes.passing
        self.resident_blocks, self.passing_blocks = (
            -(-pattern.extents[a] // s) for a, s in zip(axes, (resident, passing), strict=True)
        )
        inner = [(axis, pattern.extents[axis]) for axis in (self.d, self.v)]
        self.resident = [
            BlockOperand(self.blocks, x, (axes[0], a), (resident, n), "am")
            for x, (a, n) in zip(operands[0], inner, strict=True)
        ]
        self.passing = [
            BlockOperand(self.blocks, x, (axes[1], a), (passing, n), sizes.space)
            for x, (a, n) in zip(operands[1], inner, strict=True)
        ]
        for operand in self.resident:
            operand.declare(2 if operand.transposed else 1, 1)
        for operand in self.passing:
            operand.declare(2, 1)
        self.transposed = [
            None if f.transposed else b.tile(f.node.dtype, n, resident)
            for f, (_, n) in zip(self.resident, inner, strict=True)
        ]
        self.products = [b.tile(pattern.accumulator, passing, resident) for _ in inner]

    def element_tile(self, node: Node, like: TileDecl) -> TileDecl:
        """Return the tile of a node that is computed from the products.

        It is the product's tile ``like`` if the types match.
        """
        return (
            like
            if node.dtype == like.dtype
            else self.b.tile(node.dtype, self.sizes.passing, self.sizes.resident)
        )

    # --- steps

    def build(self, kernel: Kernel) -> None:
        """Emit the steps of this core."""
        b = self.b
        units = prod(self.pattern.extents[a] for a in self.batch) * self.resident_blocks
        self.low, high = core_share(b, kernel, units)
        steps = b.mul(b.sub(high, self.low), self.passing_blocks)
        with self.where([] if isinstance(steps, int) else [("lt", 0, steps)]):
            self.load_resident(self._at(0))
            self.load_passing(self._at(0))
        with b.for_(0, steps) as number:
            step = self._at(number)
            ahead = self._at(b.add(number, 1))
            with self.where([("lt", ahead.number, steps)]):
                self.load_passing(ahead)
            with self.where(self._first(step)):
                self._transpose_resident(step)
                self.start(step)
                later = self._at(b.add(number, self.passing_blocks))
                with self.where([("lt", later.number, steps)]):
                    self.load_resident(later)
            self._multiply(step)
            self.block(step)
            with self.where(
                [("eq", step.passing, self.passing_blocks - 1)] if self.passing_blocks > 1 else []
            ):
                self.finish(step)

    @contextmanager
    def where(self, conditions: Sequence[tuple[str, Index, Index]]) -> Iterator[None]:
        """Guard the code inside by all conditions."""
        if not conditions:
            yield
            return
        with self.b.if_(self.b.compare(*conditions[0])), self.where(conditions[1:]):
            yield

    def _first(self, step: PassStep) -> list[tuple[str, Index, Index]]:
        return [("eq", step.passing, 0)] if self.passing_blocks > 1 else []

    def _at(self, number: Index) -> PassStep:
        b, pattern = self.b, self.pattern
        unit, passing = (
            b.add(self.low, b.div(number, self.passing_blocks)),
            b.rem(number, self.passing_blocks),
        )
        entry, resident = b.div(unit, self.resident_blocks), b.rem(unit, self.resident_blocks)
        slices: Slices = {axis: (0, pattern.extents[axis]) for axis in (self.d, self.v)}
        slices |= self.blocks.index_slices(self.batch, entry)
        for axis, at, size in zip(self.axes, (resident, passing), self.sizes[:2], strict=True):
            extent, start = pattern.extents[axis], b.mul(at, size)
            slices[axis] = (
                start,
                size if extent % size == 0 else b.min(size, b.sub(extent, start)),
            )
        return PassStep(number, unit, passing, slices)

    def load_resident(self, step: PassStep) -> None:
        """Start the loads of the resident operands."""
        for operand in self.resident:
            operand.fetch(step.slices, step.unit)

    def load_row_statistics(
        self,
        known: Sequence[Value],
        tiles: Sequence[TileDecl],
        slot: Index,
        slices: Slices,
        down: bool,
    ) -> None:
        """Start the loads of row statistics, as a column (``down``) or a row of a tile."""
        sides = ((self.m,), ()) if down else ((), (self.m,))
        for value, tile in zip(known, tiles, strict=True):
            self.blocks.load(value, self.row_access(), tile, slot, slices, *sides)

    def load_passing(self, step: PassStep) -> None:
        """Start the loads of the passing operands."""
        for operand in self.passing:
            operand.fetch(step.slices, step.number)

    # --- compute

    def _transpose_resident(self, step: PassStep) -> None:
        for operand, transposed in zip(self.resident, self.transposed, strict=True):
            operand.build(step.slices, step.unit, 0)
            if transposed is not None:
                self.b.transpose(*operand.at(step.unit, 0), transposed, 0)

    def _multiply(self, step: PassStep) -> None:
        """Emit both products."""
        for resident, transposed, passing, product in zip(
            self.resident, self.transposed, self.passing, self.products, strict=True
        ):
            passing.build(step.slices, step.number, 0)
            columns = resident.at(step.unit, 0) if transposed is None else (transposed, 0)
            self.b.mm(*passing.at(step.number, 0), *columns, product, 0, trans_a=passing.transposed)

    def accumulate_product(
        self, step: PassStep, passing: BlockOperand, elements: TileDecl, sums: TileDecl
    ) -> None:
        """Add ``walked^T . elements`` to ``sums``."""
        self.b.mm(
            *passing.at(step.number, 0),
            elements,
            0,
            sums,
            0,
            acc=True,
            trans_a=not passing.transposed,
        )

    def columns(self, step: PassStep) -> Index:
        """Return the rows of the resident block."""
        return step.slices[self.axes[0]][1]

    def zero(self, step: PassStep, sums: TileDecl) -> None:
        """Set a sum to zero."""
        acc_dtype = self.pattern.accumulator
        self.b.map(
            sums.rows,
            self.columns(step),
            [],
            [(sums, 0, "full")],
            lambda _: [constant(0, acc_dtype)],
        )

    @abstractmethod
    def start(self, step: PassStep) -> None:
        """Emit what precedes the first passing block."""

    @abstractmethod
    def block(self, step: PassStep) -> None:
        """Emit what one passing block adds."""

    @abstractmethod
    def finish(self, step: PassStep) -> None:
        """Emit what follows the last passing block."""

    def row_access(self) -> Affine:
        """Return the access of a tensor with one element per row of scores."""
        coeffs, step = [0] * len(self.pattern.extents), 1
        for axis in (self.m, *reversed(self.batch)):
            coeffs[axis], step = step, step * self.pattern.extents[axis]
        return Affine(0, tuple(coeffs))


class StoredBlock:
    """Transposition, epilogue and store of a gradient from its sums, ``inner`` x ``outer``."""

    def __init__(
        self,
        pass_type: BackwardPass,
        gradient: OperandGradient,
        sums: TileDecl,
        outer: int,
        inner: int,
    ) -> None:
        """Declare the tiles."""
        indices = [gradient.access(s.index) for o in gradient.epilogue.outputs for s in o.stores]
        self.by_columns = bool(indices) and all(
            x.coeffs[outer] == 1 and x.coeffs[inner] != 1 for x in indices
        )
        self.b, self.sums = pass_type.b, sums
        self.tile = (
            sums
            if self.by_columns
            else pass_type.b.tile(sums.dtype, sums.columns, sums.rows, depth=2)
        )
        sides = ((inner,), (outer,)) if self.by_columns else ((outer,), (inner,))
        epilogue = gradient.epilogue
        self.body = TileBody(
            pass_type.blocks,
            *sides,
            (self.tile.rows, self.tile.columns),
            epilogue.operands,
            [(o.element, o.stores) for o in epilogue.outputs],
            gradient.access,
            {id(epilogue.product): self.tile},
        )

    def build(self, step: PassStep) -> None:
        """Emit the epilogue and the store."""
        if not self.by_columns:
            self.b.transpose(self.sums, 0, self.tile, step.unit)
        self.body.build(step.slices, step.unit)
