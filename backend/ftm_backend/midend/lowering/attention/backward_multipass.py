"""Attention's backward in two or three passes; scores and their gradients stay on chip.

1. ``QueryPass`` keeps a block of queries resident and iterates over keys. As in the forward, it
   maintains each query's running maximum and sum, and also its *dot* (``sum_n P * part``) and the
   two sums of ``dQ = linear[0] - linear[1] * dot``. It stores dQ and the row statistics.
2. ``SlopePass`` computes dQ instead if that is not linear in P.
3. ``KeyPass`` keeps a block of keys resident and iterates over queries, whose statistics are known.
   It stores dK and dV.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg.function import Node, Value
from ftm_backend.ir.linalg.scalar_nodes import constant, identity
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.lowering.attention.backward_pass import (
    BackwardPass,
    PassSizes,
    PassStep,
    ProductOperands,
    StoredBlock,
)
from ftm_backend.midend.lowering.attention.block_loads import ComputedBlock
from ftm_backend.midend.schedule.attention.match_backward import (
    AttentionBackwardPattern,
    OperandGradient,
)
from ftm_backend.midend.schedule.attention.score_expressions import is_fully_masked, substitute

__all__ = ["KeyPass", "QueryPass", "SlopePass", "passes_of"]


class QueryPass(BackwardPass):
    """First pass: stores dQ and, in ``known``, the row statistics (maximum, 1 / sum, dot)."""

    def __init__(
        self,
        pattern: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: PassSizes,
        known: Sequence[Value],
    ) -> None:
        """Declare the tiles of the pass; ``known``: buffers of the row statistics."""
        _, m, n, d, _ = pattern.axes
        super().__init__(
            pattern, b, sizes, (m, n), ((pattern.q, pattern.grad), (pattern.k, pattern.v))
        )
        self.known, acc_dtype, resident = known, pattern.accumulator, sizes.resident
        most = (sizes.passing, resident)
        axes = (n, m)
        self.score = ComputedBlock(self.blocks, pattern.score, [pattern.scores], axes, most)
        self.least = Node("least", acc_dtype)
        shifted = Node(
            "math.exp", acc_dtype, (Node("arith.subf", acc_dtype, (pattern.score, self.least)),)
        )
        memo = {id(pattern.exponential): shifted}
        summed = [substitute(x, memo) for x in pattern.linear or ()]
        nodes = [shifted, substitute(pattern.along, memo), *summed]
        self.others = nodes[1:]
        self.parts = ComputedBlock(
            self.blocks,
            shifted,
            [pattern.score, pattern.products, self.least, pattern.empty],
            axes,
            most,
            also=self.others,
        )
        self.elements = [
            self.element_tile(x, like) for x, like in zip(summed, self.products[::-1], strict=False)
        ]
        self.largest, self.total, self.dot = (
            b.tile(acc_dtype, 1, resident, depth=2) for _ in range(3)
        )
        self.block_largest, self.scale, self.subtracted = (
            b.tile(acc_dtype, 1, resident) for _ in range(3)
        )
        self.empty = b.tile("i1", 1, resident)
        self.sums = [b.tile(acc_dtype, pattern.extents[d], resident) for _ in summed]
        self.stored = StoredBlock(self, pattern.of_q, self.sums[0], m, d) if summed else None

    def load_passing(self, step: PassStep) -> None:
        """Start the loads of keys, values and masks."""
        super().load_passing(step)
        self.score.fetch(step.slices, step.number)
        self.parts.fetch(step.slices, step.number)

    def start(self, step: PassStep) -> None:
        """Initialize the row statistics and the sums of dQ."""
        acc_dtype = self.pattern.accumulator
        starts = [
            constant(identity("max", acc_dtype), acc_dtype),
            constant(0, acc_dtype),
            constant(0, acc_dtype),
        ]
        rows = [(t, step.unit, "full") for t in (self.largest, self.total, self.dot)]
        self.b.map(1, self.columns(step), [], rows, lambda _: starts)
        for sums in self.sums:
            self.zero(step, sums)

    def block(self, step: PassStep) -> None:
        """Emit the scores of one block of keys, and update statistics and sums."""
        pattern, slices = self.pattern, step.slices
        scores, products = self.products
        largest, given = (self.block_largest, 0, "cmax"), [(scores, 0, "full")]
        if pattern.score is pattern.scores:
            self.score.map(slices, step.number, given, [largest])
        else:
            self.score.map(
                slices, step.number, given, [(scores, 0, "full"), largest], [pattern.score]
            )
        self._rescale(step)
        self.parts.map(
            slices,
            step.number,
            [
                (scores, 0, "full"),
                (products, 0, "full"),
                (self.subtracted, 0, "row"),
                (self.empty, 0, "row"),
            ],
            [
                (self.total, step.unit, "csum.acc"),
                (self.dot, step.unit, "csum.acc"),
                *((t, 0, "full") for t in self.elements),
            ],
            self.others,
        )
        for elements, sums in zip(self.elements, self.sums, strict=True):
            self.accumulate_product(step, self.passing[0], elements, sums)

    def _rescale(self, step: PassStep) -> None:
        """Emit the new maxima, and rescale the sums to them."""
        acc_dtype, now = self.pattern.accumulator, step.unit

        def rows(arguments: Sequence[Node]) -> list[Node]:
            before, block, total, dot = arguments
            largest = Node("arith.maximumf", acc_dtype, (before, block))
            none = is_fully_masked(largest)
            scale = Node("math.exp", acc_dtype, (Node("arith.subf", acc_dtype, (before, largest)),))
            scale = Node("arith.select", acc_dtype, (none, constant(1, acc_dtype), scale))
            subtracted = Node("arith.select", acc_dtype, (none, constant(0, acc_dtype), largest))
            return [
                largest,
                scale,
                subtracted,
                none,
                *(Node("arith.mulf", acc_dtype, (x, scale)) for x in (total, dot)),
            ]

        held, total, dot = ((t, now, "full") for t in (self.largest, self.total, self.dot))
        self.b.map(
            1,
            self.columns(step),
            [held, (self.block_largest, 0, "full"), total, dot],
            [
                held,
                *((t, 0, "full") for t in (self.scale, self.subtracted, self.empty)),
                total,
                dot,
            ],
            rows,
        )
        if self.passing_blocks > 1:
            for tile in self.sums:
                sums = (tile, 0, "full")
                self.b.map(
                    tile.rows,
                    self.columns(step),
                    [sums, (self.scale, 0, "row")],
                    [sums],
                    lambda x: [Node("arith.mulf", acc_dtype, tuple(x))],
                )

    def finish(self, step: PassStep) -> None:
        """Divide by the sums of the rows; store the statistics and dQ."""
        b, acc_dtype, now = self.b, self.pattern.accumulator, step.unit

        def rows(arguments: Sequence[Node]) -> list[Node]:
            total, largest, dot = arguments
            # A row without scores has the weights that the program defines, not quotients.
            if self.pattern.given:
                total = Node(
                    "arith.select",
                    acc_dtype,
                    (is_fully_masked(largest), constant(1, acc_dtype), total),
                )
            inverse = Node("arith.divf", acc_dtype, (constant(1, acc_dtype), total))
            return [inverse, Node("arith.mulf", acc_dtype, (dot, inverse))]

        def gradient(arguments: Sequence[Node]) -> list[Node]:
            first, second, dot, inverse = arguments
            taken = Node(
                "arith.subf", acc_dtype, (first, Node("arith.mulf", acc_dtype, (second, dot)))
            )
            return [Node("arith.mulf", acc_dtype, (taken, inverse))]

        held, total, dot = ((t, now, "full") for t in (self.largest, self.total, self.dot))
        b.map(1, self.columns(step), [total, held, dot], [total, dot], rows)
        for value, tile in zip(self.known, (self.largest, self.total, self.dot), strict=True):
            b.store(
                tile,
                now,
                self.blocks.buffer(value),
                **self.blocks.block(self.row_access(), step.slices, (), (self.m,)),
            )
        if self.stored is None:
            return
        first, second = ((t, 0, "full") for t in self.sums)
        b.map(
            self.sums[0].rows,
            self.columns(step),
            [first, second, (self.dot, now, "row"), (self.total, now, "row")],
            [first],
            gradient,
        )
        self.stored.build(step)


class RowStatisticsPass(BackwardPass):
    """A pass with known row statistics: sums of elements computed from both products.

    Each sum is a gradient.
    """

    def __init__(
        self,
        pattern: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: PassSizes,
        known: Sequence[Value],
        axes: tuple[int, int],
        operands: tuple[ProductOperands, ProductOperands],
        made: Sequence[tuple[Node, OperandGradient, int]],
    ) -> None:
        """Declare the tiles of the pass.

        Args:
            pattern: The matched pattern.
            b: The builder.
            sizes: Block sizes.
            known: Buffers of the row statistics.
            axes: As of `BackwardPass`; one of them is the axis of queries.
            operands: As of `BackwardPass`.
            made: For each gradient: its summand, its epilogue, and its inner axis.
        """
        super().__init__(pattern, b, sizes, axes, operands)
        self.known, acc_dtype, resident = known, pattern.accumulator, sizes.resident
        self.passing_queries = axes[1] == self.m
        element, *self.others = [node for node, _, _ in made]
        self.parts = ComputedBlock(
            self.blocks,
            element,
            [pattern.scores, pattern.products, *pattern.known],
            axes[::-1],
            (sizes.passing, resident),
            also=self.others,
        )
        self.elements = [
            self.element_tile(node, product)
            for (node, _, _), product in zip(made, self.products, strict=False)
        ]
        extents = (sizes.passing, 1) if self.passing_queries else (1, resident)
        self.rows = [b.tile(acc_dtype, *extents, depth=2) for _ in known]
        self.sums = [b.tile(acc_dtype, pattern.extents[axis], resident) for _, _, axis in made]
        self.stored = [
            StoredBlock(self, gradient, sums, axes[0], axis)
            for (_, gradient, axis), sums in zip(made, self.sums, strict=True)
        ]

    def load_resident(self, step: PassStep) -> None:
        """Start the loads of the resident block, with its row statistics if it has queries."""
        super().load_resident(step)
        if not self.passing_queries:
            self.load_row_statistics(self.known, self.rows, step.unit, step.slices, down=False)

    def load_passing(self, step: PassStep) -> None:
        """Start the loads of a passing block, with its row statistics if it has queries."""
        super().load_passing(step)
        if self.passing_queries:
            self.load_row_statistics(self.known, self.rows, step.number, step.slices, down=True)
        self.parts.fetch(step.slices, step.number)

    def start(self, step: PassStep) -> None:
        """Set the sums to zero."""
        for sums in self.sums:
            self.zero(step, sums)

    def block(self, step: PassStep) -> None:
        """Add one passing block to the sums."""
        slot, access = (step.number, "col") if self.passing_queries else (step.unit, "row")
        given = [*((t, 0, "full") for t in self.products), *((t, slot, access) for t in self.rows)]
        self.parts.map(
            step.slices, step.number, given, [(t, 0, "full") for t in self.elements], self.others
        )
        for passing, elements, sums in zip(self.passing, self.elements, self.sums, strict=False):
            self.accumulate_product(step, passing, elements, sums)

    def finish(self, step: PassStep) -> None:
        """Store the gradients."""
        for stored in self.stored:
            stored.build(step)


class SlopePass(RowStatisticsPass):
    """Second pass, if the first one cannot compute dQ: stores dQ."""

    def __init__(
        self,
        pattern: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: PassSizes,
        known: Sequence[Value],
    ) -> None:
        """Declare the tiles of the pass."""
        _, m, n, d, _ = pattern.axes
        super().__init__(
            pattern,
            b,
            sizes,
            known,
            (m, n),
            ((pattern.q, pattern.grad), (pattern.k, pattern.v)),
            [(pattern.slope, pattern.of_q, d)],
        )


class KeyPass(RowStatisticsPass):
    """Last pass: stores dK and dV."""

    def __init__(
        self,
        pattern: AttentionBackwardPattern,
        b: TileBuilder,
        sizes: PassSizes,
        known: Sequence[Value],
    ) -> None:
        """Declare the tiles of the pass."""
        _, m, n, d, v = pattern.axes
        super().__init__(
            pattern,
            b,
            sizes,
            known,
            (n, m),
            ((pattern.k, pattern.v), (pattern.q, pattern.grad)),
            [(pattern.slope, pattern.of_k, d), (pattern.weight, pattern.of_v, v)],
        )


def passes_of(
    pattern: AttentionBackwardPattern,
) -> tuple[type[QueryPass] | type[SlopePass] | type[KeyPass], ...]:
    """Return the passes of a pattern in order; a barrier separates them."""
    return (QueryPass, KeyPass) if pattern.linear else (QueryPass, SlopePass, KeyPass)
